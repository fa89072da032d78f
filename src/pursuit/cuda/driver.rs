//! A CUDA device through the driver API.
//!
//! cudarc looks the driver up when it is first called and panics where there is none, or where an old driver lacks a
//! function; [`Cuda::open`] therefore asks for both before it calls anything else.

use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{CUdevice_attribute_enum as Attribute, CUevent_flags, CUfunction, cudaError_enum};
use cudarc::driver::sys::{CUfunction_attribute_enum, cuDriverGetVersion};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, result};

use super::device::{Description, Device, DeviceTimes, Submission};
use super::layout::{Plan, SHARED_LIMIT, THREADS};
use crate::error::{Error, Result};

/// The kernels, for the driver to compile.
const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/pursuit.ptx"));
/// What the PTX was compiled for.
pub const PTX_TARGET: &str = env!("RERANK_BENCH_PTX_TARGET");
/// CUDA version that the PTX needs of the driver, as `cuDriverGetVersion` counts.
pub const NEEDED_DRIVER: i32 = 13_000;
/// Compute capability of the oldest card that the kernels run on.
pub const NEEDED_CAPABILITY: (i32, i32) = (8, 0);
const KERNELS: [&str; 3] = ["pursue_f32", "pursue_f16", "pursue_bf16"];

/// An open device with its kernels.
#[derive(Debug)]
pub(super) struct Cuda {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    functions: Vec<(&'static str, CUfunction)>,
    description: Description,
}

// SAFETY: function handles belong to the context, may be used from every thread that has bound it (each method
// does), and live as long as it: the module is never unloaded.
unsafe impl Send for Cuda {}
// SAFETY: as above; launches from several threads only order themselves on the stream.
unsafe impl Sync for Cuda {}

impl Cuda {
    pub(super) fn open(ordinal: usize) -> Result<Self> {
        let (context, description) = Self::look(ordinal)?;
        let functions = load_kernels()?;
        let stream = context.new_stream().map_err(|fault| describe("opening the card", fault))?;
        Ok(Self { context, stream, functions, description })
    }

    /// The card with this ordinal, if it is one that the kernels run on; loads nothing onto it.
    pub(super) fn look(ordinal: usize) -> Result<(Arc<CudaContext>, Description)> {
        let driver = driver_version()?;
        let count = CudaContext::device_count().map_err(|fault| describe("looking for a card", fault))?;
        if count <= 0 {
            return Err(describe("looking for a card", DriverError(cudaError_enum::CUDA_ERROR_NO_DEVICE)));
        }
        if ordinal >= count as usize {
            return Err(Error::Device(format!(
                "there is no CUDA device {ordinal}: this machine has {count}, counted from 0; use --device cuda:0, or \
                 --device cpu"
            )));
        }
        let opening = |fault| describe("opening the card", fault);
        let context = CudaContext::new(ordinal).map_err(opening)?;
        let capability = context.compute_capability().map_err(opening)?;
        let name = context.name().map_err(opening)?;
        if capability < NEEDED_CAPABILITY {
            let ((major, minor), (least, _)) = (capability, NEEDED_CAPABILITY);
            return Err(Error::Device(format!(
                "{name} has compute capability {major}.{minor}, and the kernels need {least}.0 or newer (RTX 30 series, \
                 A100); use --device cpu"
            )));
        }
        let attribute = |which| context.attribute(which).map_err(opening);
        let description = Description {
            name,
            capability,
            driver: (driver / 1000, driver % 1000 / 10),
            memory: context.total_mem().map_err(opening)?,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
        };
        Ok((context, description))
    }

    fn function(&self, kernel: &'static str) -> Result<CUfunction> {
        let found = self.functions.iter().find(|(name, _)| *name == kernel);
        found
            .map(|&(_, function)| function)
            .ok_or_else(|| Error::Device(format!("there is no kernel {kernel}")))
    }

    fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(|fault| describe("using the card", fault))
    }

    fn event(&self) -> Result<CudaEvent, DriverError> {
        self.stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
    }

    /// Queues upload, kernel and read-back with events between them, and waits.
    ///
    /// # Safety
    /// As [`Device::run`].
    unsafe fn queue(
        &self,
        submission: Submission<'_>,
        function: CUfunction,
    ) -> Result<DeviceTimes, DriverError> {
        let stream = self.stream.cu_stream();
        let mut plan: Plan = *submission.plan;
        let mut arguments: [*mut c_void; 1] = [(&raw mut plan).cast()];
        let start = self.event()?;
        // SAFETY: the range is allocated (the caller's promise); the bytes outlive the synchronisation below.
        unsafe { result::memcpy_htod_async(submission.upload_to, submission.upload, stream)? };
        let uploaded = self.event()?;
        // SAFETY: the kernel takes one Plan by value, which the caller promises to be sound.
        unsafe {
            result::launch_kernel(
                function,
                (submission.blocks as u32, 1, 1),
                (THREADS, 1, 1),
                submission.shared_bytes as u32,
                stream,
                &mut arguments,
            )?
        };
        let computed = self.event()?;
        // SAFETY: as for the upload.
        unsafe { result::memcpy_dtoh_async(submission.read_back, submission.read_from, stream)? };
        let done = self.event()?;
        self.stream.synchronize()?;
        let between = |from: &CudaEvent, to: &CudaEvent| {
            from.elapsed_ms(to)
                .map(|milliseconds| Duration::from_secs_f64(f64::from(milliseconds).max(0.0) / 1e3))
        };
        Ok(DeviceTimes {
            upload: between(&start, &uploaded)?,
            compute: between(&uploaded, &computed)?,
            read_back: between(&computed, &done)?,
        })
    }
}

impl Device for Cuda {
    fn description(&self) -> &Description {
        &self.description
    }

    fn resident_blocks(&self, kernel: &'static str, shared_bytes: usize) -> Result<usize> {
        self.bind()?;
        let function = self.function(kernel)?;
        // SAFETY: a handle from this context.
        let blocks = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(function, THREADS as i32, shared_bytes)
        }
        .map_err(|fault| describe("planning a launch", fault))?;
        if blocks <= 0 {
            return Err(Error::Device(format!(
                "{} cannot hold one block of {kernel}",
                self.description.name
            )));
        }
        Ok(blocks as usize * self.description.multiprocessors)
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.bind()?;
        // SAFETY: the memory is written before a kernel reads it, as each buffer's owner sees to.
        unsafe { result::malloc_sync(bytes) }.map_err(|fault| match fault.0 {
            cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY => {
                let free = result::mem_get_info().map_or(0, |(free, _)| free);
                Error::OutOfMemory(format!(
                    "{} MiB on {}, of which {} MiB are free; give fewer pools at a time, or use --device cpu",
                    bytes >> 20,
                    self.description.name,
                    free >> 20
                ))
            }
            _ => describe("reserving memory", fault),
        })
    }

    unsafe fn free(&self, address: u64) {
        // A failure here has been reported by the call that broke the device.
        if self.bind().is_ok() {
            // SAFETY: the caller's promise. cuMemFree waits for work that still uses the memory.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.bind()?;
        // On the launches' own stream: a copy on the default stream may still be under way when a kernel on another
        // starts.
        // SAFETY: the caller's promise; the bytes outlive the synchronisation.
        unsafe { result::memcpy_htod_async(address, bytes, self.stream.cu_stream()) }
            .and_then(|()| self.stream.synchronize())
            .map_err(|fault| describe("copying to the card", fault))
    }

    unsafe fn run(&self, submission: Submission<'_>) -> Result<DeviceTimes> {
        self.bind()?;
        let kernel = submission.kernel;
        let function = self.function(kernel)?;
        // SAFETY: the caller's promise.
        unsafe { self.queue(submission, function) }
            .map_err(|fault| describe(&format!("running {kernel}"), fault))
    }
}

/// Version of CUDA that the driver supports.
fn driver_version() -> Result<i32> {
    let found = [c"libcuda.so.1", c"libcuda.so"].iter().any(|name: &&CStr| {
        // SAFETY: a plain dlopen() of the driver; the handle stays open, as cudarc keeps its own.
        !unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) }.is_null()
    });
    if !found {
        return Err(Error::Device(
            "there is no NVIDIA driver on this machine (libcuda.so.1 was not found); install one, 580 or newer, or use \
             --device cpu"
                .into(),
        ));
    }
    let mut version = 0;
    // SAFETY: writes one int; every driver has this function.
    unsafe { cuDriverGetVersion(&mut version) }
        .result()
        .map_err(|fault| describe("asking for the driver", fault))?;
    if version < NEEDED_DRIVER {
        return Err(Error::Device(format!(
            "the NVIDIA driver supports CUDA {}.{}, and the kernels need {}.{}: install driver 580 or newer, or use \
             --device cpu",
            version / 1000,
            version % 1000 / 10,
            NEEDED_DRIVER / 1000,
            NEEDED_DRIVER % 1000 / 10
        )));
    }
    result::init().map_err(|fault| describe("starting the driver", fault))?;
    Ok(version)
}

/// Compiles the kernels on the current context, and lets them have the shared memory that they may ask for.
fn load_kernels() -> Result<Vec<(&'static str, CUfunction)>> {
    let loading = |fault| describe("loading the kernels", fault);
    let text = CString::new(PTX).map_err(|_| Error::Device("the PTX in this program is damaged".into()))?;
    // SAFETY: PTX text that ends with NUL.
    let module = unsafe { result::module::load_data(text.as_ptr().cast()) }.map_err(loading)?;
    let load = |kernel| {
        let name = CString::new(kernel).map_err(|_| Error::Device("a kernel's name has no NUL".into()))?;
        // SAFETY: the module was just loaded, and is never unloaded.
        let function = unsafe { result::module::get_function(module, name) }.map_err(loading)?;
        let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a handle from this module.
        unsafe { result::function::set_function_attribute(function, attribute, SHARED_LIMIT as i32) }
            .map_err(loading)?;
        Ok((kernel, function))
    };
    KERNELS.into_iter().map(load).collect()
}

/// A driver error as one sentence: what was being done, what the driver says, what to do where that is known.
fn describe(doing: &str, fault: DriverError) -> Error {
    use cudaError_enum as Code;
    let what = match fault.0 {
        Code::CUDA_ERROR_OUT_OF_MEMORY => {
            return Error::OutOfMemory(format!("{doing}: the card's memory is full; give fewer pools at a time"));
        }
        Code::CUDA_ERROR_NO_DEVICE => "there is no NVIDIA card that the driver can use; use --device cpu".to_owned(),
        Code::CUDA_ERROR_STUB_LIBRARY => {
            "libcuda.so is a link stub, not a driver; take the stubs off LD_LIBRARY_PATH and install an NVIDIA driver"
                .to_owned()
        }
        Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "the driver's library and its kernel module are of different versions; restart the machine".to_owned()
        }
        Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            "the driver is too old for the kernels; install driver 580 or newer".to_owned()
        }
        code => {
            let text = fault.error_string().map_or_else(|_| format!("{code:?}"), |text| text.to_string_lossy().into());
            format!("the CUDA driver says: {text} ({code:?})")
        }
    };
    Error::Device(format!("{doing}: {what}"))
}
