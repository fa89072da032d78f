//! The emulated device: the kernels on the CPU, through `kernels/emu`. Slow; for tests of the kernels and of all the
//! host code around them.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::device::{Description, Device, DeviceTimes, Submission};
use super::layout::{Plan, THREADS};
use crate::error::{Error, Result};

/// The order in which the emulator runs the threads of a block between two barriers. A kernel must give the same
/// result in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadOrder {
    Ascending,
    Descending,
    /// Shuffled anew at every barrier.
    Shuffled(u64),
    /// One warp as far as it can go, then the next.
    WarpByWarp,
}

unsafe extern "C" {
    fn emu_launch(
        kernel: *const c_char,
        grid: c_uint,
        threads: c_uint,
        shared_bytes: usize,
        arguments: *mut *mut c_void,
        order: c_uint,
        seed: u64,
        message: *mut c_char,
        room: usize,
    ) -> c_int;
    fn emu_allocate(bytes: usize) -> *mut c_void;
    fn emu_free(memory: *mut c_void) -> c_int;
}

/// Runs one kernel of `kernels/` on the CPU.
///
/// # Errors
/// What the emulator reports: a deadlock, a divergent barrier, an access out of bounds.
///
/// # Safety
/// `arguments` point to values of exactly the kernel's parameter types, and what those point to is memory from
/// [`Guarded`].
pub unsafe fn launch(
    kernel: &str,
    grid: u32,
    threads: u32,
    shared_bytes: usize,
    arguments: &mut [*mut c_void],
    order: ThreadOrder,
) -> Result<(), String> {
    let name = CString::new(kernel).map_err(|_| "a kernel's name has no NUL".to_owned())?;
    let (order, seed) = match order {
        ThreadOrder::Ascending => (0, 0),
        ThreadOrder::Descending => (1, 0),
        ThreadOrder::Shuffled(seed) => (2, seed),
        ThreadOrder::WarpByWarp => (3, 0),
    };
    let mut message: [c_char; 512] = [0; 512];
    // SAFETY: the arguments are as the kernel expects them (the caller's promise); the message has the room stated.
    let failed = unsafe {
        emu_launch(
            name.as_ptr(),
            grid,
            threads,
            shared_bytes,
            arguments.as_mut_ptr(),
            order,
            seed,
            message.as_mut_ptr(),
            message.len(),
        )
    };
    if failed == 0 {
        return Ok(());
    }
    // SAFETY: snprintf() ended the message with NUL.
    Err(unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned())
}

/// Memory between two pages that cannot be touched, filled with 0xFF.
#[derive(Debug)]
pub struct Guarded {
    memory: *mut c_void,
    bytes: usize,
}

// SAFETY: owned memory, without any tie to the thread that mapped it.
unsafe impl Send for Guarded {}
// SAFETY: shared access only reads.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// `bytes` of memory.
    ///
    /// # Panics
    /// Where the system has none left.
    pub fn new(bytes: usize) -> Self {
        // SAFETY: a plain allocation.
        let memory = unsafe { emu_allocate(bytes) };
        assert!(!memory.is_null(), "no memory for an emulated buffer of {bytes} bytes");
        Self { memory, bytes }
    }

    pub fn as_ptr(&self) -> *mut c_void {
        self.memory
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `bytes` of initialised memory, alive as long as self.
        unsafe { std::slice::from_raw_parts(self.memory.cast(), self.bytes) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: from emu_allocate, freed once.
        let intact = unsafe { emu_free(self.memory) } != 0;
        assert!(intact || std::thread::panicking(), "a kernel wrote past the end of a buffer");
    }
}

/// The emulator as a device.
#[derive(Debug)]
pub(super) struct Emulator {
    order: ThreadOrder,
    description: Description,
    /// Bytes that are allocated, by address.
    held: Mutex<HashMap<u64, usize>>,
}

impl Emulator {
    /// A device of `memory` bytes.
    pub(super) fn new(order: ThreadOrder, memory: usize) -> Self {
        let description = Description {
            name: "emulator".into(),
            capability: (0, 0),
            driver: (0, 0),
            memory,
            multiprocessors: 1,
        };
        Self { order, description, held: Mutex::default() }
    }
}

impl Device for Emulator {
    fn description(&self) -> &Description {
        &self.description
    }

    fn resident_blocks(&self, _kernel: &'static str, _shared_bytes: usize) -> Result<usize> {
        // As many as kernels/emu/block.cpp runs in turns.
        Ok(3)
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        let full = || Error::OutOfMemory(format!("{bytes} bytes for the emulator"));
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.values().sum::<usize>().saturating_add(bytes) > self.description.memory {
            return Err(full());
        }
        // SAFETY: a plain allocation.
        let memory = unsafe { emu_allocate(bytes) } as u64;
        if memory == 0 {
            return Err(full());
        }
        held.insert(memory, bytes);
        Ok(memory)
    }

    unsafe fn free(&self, address: u64) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
        // SAFETY: the caller's promise.
        let intact = unsafe { emu_free(address as *mut c_void) } != 0;
        assert!(intact || std::thread::panicking(), "a kernel wrote past the end of a buffer");
    }

    unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller's promise; host memory cannot overlap what is borrowed here.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }

    unsafe fn run(&self, submission: Submission<'_>) -> Result<DeviceTimes> {
        let start = Instant::now();
        // SAFETY: the caller's promise.
        unsafe { self.write(submission.upload_to, submission.upload)? };
        let uploaded = Instant::now();
        let mut plan: Plan = *submission.plan;
        let mut arguments = [(&raw mut plan).cast()];
        // SAFETY: the kernel takes a Plan by value, and the caller promises that it is sound.
        unsafe {
            launch(
                submission.kernel,
                submission.blocks as u32,
                THREADS,
                submission.shared_bytes,
                &mut arguments,
                self.order,
            )
        }
        .map_err(|fault| Error::Device(format!("{} on the emulator: {fault}", submission.kernel)))?;
        let computed = Instant::now();
        let back = submission.read_back;
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(submission.read_from as *const u8, back.as_mut_ptr(), back.len())
        };
        Ok(DeviceTimes {
            upload: uploaded - start,
            compute: computed - uploaded,
            read_back: computed.elapsed(),
        })
    }
}
