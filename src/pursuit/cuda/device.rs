//! What the selector needs of a device, real or emulated.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::layout::Plan;
use crate::error::Result;

/// What a device is, for reports and `doctor`.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// The card's name.
    pub name: String,
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// CUDA version that the driver supports, such as (13, 0).
    pub driver: (i32, i32),
    /// Memory in bytes.
    pub memory: usize,
    /// Streaming multiprocessors.
    pub multiprocessors: usize,
}

/// One upload, launch and read-back.
pub(super) struct Submission<'a> {
    pub upload: &'a [u8],
    pub upload_to: u64,
    pub kernel: &'static str,
    pub blocks: usize,
    pub shared_bytes: usize,
    pub plan: &'a Plan,
    pub read_back: &'a mut [u8],
    pub read_from: u64,
}

/// Time on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DeviceTimes {
    pub upload: Duration,
    pub compute: Duration,
    pub read_back: Duration,
}

/// A device with its memory. Addresses are the device's own.
pub(super) trait Device: Debug + Send + Sync {
    fn description(&self) -> &Description;

    /// Blocks of this kernel that the device runs at a time.
    fn resident_blocks(&self, kernel: &'static str, shared_bytes: usize) -> Result<usize>;

    /// Reserves memory, aligned to 16 bytes or more.
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// Gives memory back.
    ///
    /// # Safety
    /// `address` came from [`Device::allocate`] of this device and is not used again.
    unsafe fn free(&self, address: u64);

    /// Copies to the device; returns when the bytes are there.
    ///
    /// # Safety
    /// The bytes from `address` on, as many as given, lie in memory that was allocated here.
    unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<()>;

    /// Uploads, launches and reads back; returns when all is done.
    ///
    /// # Safety
    /// Both ranges, and everything that the plan and the tasks among the uploaded bytes point to, lie in memory
    /// that was allocated here, as large as `kernels/plan.h` says.
    unsafe fn run(&self, submission: Submission<'_>) -> Result<DeviceTimes>;
}

/// A piece of device memory, given back when dropped.
#[derive(Debug)]
pub(super) struct Memory {
    device: Arc<dyn Device>,
    address: u64,
    bytes: usize,
}

impl Memory {
    pub(super) fn allocate(device: &Arc<dyn Device>, bytes: usize) -> Result<Self> {
        let address = device.allocate(bytes)?;
        Ok(Self { device: device.clone(), address, bytes })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies `bytes` to `offset`.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(offset + bytes.len() <= self.bytes, "a write past the end of device memory");
        // SAFETY: the range lies in this allocation, by the line above.
        unsafe { self.device.write(self.address + offset as u64, bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the address came from this device's allocate(), and nobody else holds it.
        unsafe { self.device.free(self.address) }
    }
}
