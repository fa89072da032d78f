//! Where the networks run and in which number format.
//!
//! The only place, with `nn/ops`, that knows whether this build has CUDA. What `auto` chose, and why, is said
//! in [`Placement::note`].

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// `--device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The first CUDA device if this build and this machine have one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The CUDA device with this ordinal.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(|n| n.parse().ok()).map(Self::Cuda).ok_or_else(|| {
                Error::Usage(format!("device {text:?} is not known; use auto, cpu, cuda or cuda:N"))
            }),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(n) => write!(f, "cuda:{n}"),
        }
    }
}

/// `--dtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DtypeChoice {
    /// f32 on the CPU, bf16 on CUDA.
    #[default]
    Auto,
    /// IEEE single precision throughout.
    F32,
    /// f32 storage, matrix products rounded to TF32 (CUDA).
    Tf32,
    /// IEEE half precision (CUDA).
    F16,
    /// bfloat16 (CUDA).
    Bf16,
}

impl DtypeChoice {
    /// The name used on the command line and in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl FromStr for DtypeChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Auto, Self::F32, Self::Tf32, Self::F16, Self::Bf16]
            .into_iter()
            .find(|d| d.name() == text)
            .ok_or_else(|| {
                Error::Usage(format!("dtype {text:?} is not known; use auto, f32, tf32, f16 or bf16"))
            })
    }
}

/// Why this build cannot use CUDA, or `None` where it can try.
pub fn cuda_missing_from_build() -> Option<&'static str> {
    if cfg!(feature = "cuda") { None } else { Some("this build is without the `cuda` feature") }
}

/// What `doctor` says about GPUs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GpuReport {
    /// Name and value, a line each.
    pub facts: Vec<(&'static str, String)>,
    /// Why no GPU can be used, and what to do about it.
    pub problem: Option<String>,
}

/// One comparison of a GPU kernel with its CPU twin.
#[derive(Debug, Clone, PartialEq)]
pub struct SelfCheck {
    pub passed: bool,
    /// What was compared, and how far apart it was.
    pub line: String,
}

/// A GPU, for the environment of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuName {
    pub name: String,
    /// Version of the driver, where it says.
    pub driver: Option<String>,
    /// CUDA version that the driver supports.
    pub cuda: String,
}

/// The NVIDIA kernel module's version, as it says itself.
#[cfg(feature = "cuda")]
fn driver_version() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.split_whitespace().find(version).map(String::from)
}

/// The GPU that `device` stands for, if it can be used.
pub fn gpu(device: DeviceChoice) -> Option<GpuName> {
    #[cfg(feature = "cuda")]
    {
        let ordinal = match device {
            DeviceChoice::Cpu => return None,
            DeviceChoice::Auto => 0,
            DeviceChoice::Cuda(ordinal) => ordinal,
        };
        let card = crate::pursuit::cuda::card(ordinal).ok()?;
        let cuda = format!("{}.{}", card.driver.0, card.driver.1);
        Some(GpuName { name: card.name, driver: driver_version(), cuda })
    }
    #[cfg(not(feature = "cuda"))]
    {
        let _ = device;
        None
    }
}

/// Looks for a GPU and says what is there, and what is missing.
#[cfg(feature = "cuda")]
pub fn gpu_report(device: DeviceChoice) -> GpuReport {
    let ordinal = if let DeviceChoice::Cuda(ordinal) = device { ordinal } else { 0 };
    use crate::pursuit::cuda::{NEEDED_CAPABILITY, NEEDED_DRIVER, PTX_TARGET, card};
    let (major, minor) = NEEDED_CAPABILITY;
    let needed = format!(
        "kernels for {PTX_TARGET}; needed: driver for CUDA {}.{}, compute capability {major}.{minor}",
        NEEDED_DRIVER / 1000,
        NEEDED_DRIVER % 1000 / 10
    );
    let mut facts = vec![("cuda", needed)];
    let problem = match card(ordinal) {
        Ok(card) => {
            let ((major, minor), (driver, point)) = (card.capability, card.driver);
            let memory = card.memory as f64 / f64::from(1 << 30);
            facts.push((
                "card",
                format!("{}, {memory:.1} GiB, compute capability {major}.{minor}", card.name),
            ));
            let module = driver_version().map_or(String::new(), |version| format!("{version}, "));
            facts.push(("driver", format!("{module}CUDA {driver}.{point}")));
            None
        }
        Err(error) => Some(error.to_string()),
    };
    GpuReport { facts, problem }
}

/// Looks for a GPU and says what is there, and what is missing.
#[cfg(not(feature = "cuda"))]
pub fn gpu_report(_: DeviceChoice) -> GpuReport {
    let missing = cuda_missing_from_build().unwrap_or_default();
    GpuReport { facts: Vec::new(), problem: Some(format!("{missing}; build with --features cuda")) }
}

/// Runs everything that has a twin on `device` against it: the selector's kernels (GPUs only), and every step of the
/// networks in candle's own operations against the CPU's fused form.
///
/// # Errors
/// The device cannot be opened, or fails.
pub fn self_test(device: DeviceChoice) -> Result<Vec<SelfCheck>> {
    let mut checks = match device {
        DeviceChoice::Cpu => Vec::new(),
        DeviceChoice::Auto => selector_checks(0)?,
        DeviceChoice::Cuda(ordinal) => selector_checks(ordinal)?,
    };
    #[cfg(feature = "neural")]
    {
        // In f32, not TF32, whose products would have to be judged by another measure.
        let placement = place(device, DtypeChoice::F32)?;
        checks.extend(crate::nn::ops::self_test(&placement.device).into_iter().map(|check| SelfCheck {
            passed: check.passed(),
            line: match &check.outcome {
                Ok(worst) => format!("{}: off by {worst:.1e}, allowed {:.0e}", check.name, check.tolerance),
                Err(why) => format!("{}: failed: {why}", check.name),
            },
        }));
    }
    if checks.is_empty() {
        checks.push(SelfCheck { passed: true, line: "nothing in this build has a twin on the CPU".into() });
    }
    Ok(checks)
}

#[cfg(feature = "cuda")]
fn selector_checks(ordinal: usize) -> Result<Vec<SelfCheck>> {
    let checks = crate::pursuit::cuda::Gpu::open(ordinal)?.self_test()?;
    let line = |check: crate::pursuit::cuda::Check| SelfCheck {
        passed: check.passed(),
        line: format!(
            "MemPursuit, {}: {} of {} orders agree, largest difference of a score {:.1e}",
            check.name, check.agreeing, check.pools, check.worst
        ),
    };
    Ok(checks.into_iter().map(line).collect())
}

#[cfg(not(feature = "cuda"))]
fn selector_checks(_: usize) -> Result<Vec<SelfCheck>> {
    Err(Error::Device(gpu_report(DeviceChoice::Auto).problem.unwrap_or_default()))
}

#[cfg(feature = "neural")]
pub use placement::{Placement, candle_fault, matmul_rate, place};

#[cfg(feature = "neural")]
mod placement {
    use std::time::Instant;

    use candle_core::{DType, Device, Tensor};

    use super::*;

    /// A device and a number format that go together.
    #[derive(Debug, Clone)]
    pub struct Placement {
        /// Candle's handle of the device.
        pub device: Device,
        /// `cpu` or `cuda:N`.
        pub device_name: String,
        /// Format of weights and activations.
        pub dtype: DType,
        /// What was chosen, by its command-line name (`tf32` has the storage format of `f32`).
        pub dtype_choice: DtypeChoice,
        /// What `auto` decided and why, where it had to decide against CUDA.
        pub note: Option<String>,
    }

    /// Opens the device asked for and settles the number format.
    ///
    /// # Errors
    /// [`Error::Usage`] for a format the device cannot compute in, [`Error::Device`] for CUDA asked for and
    /// not there.
    pub fn place(device: DeviceChoice, dtype: DtypeChoice) -> Result<Placement> {
        let (handle, device_name, note) = match device {
            DeviceChoice::Cpu => (Device::Cpu, "cpu".to_owned(), None),
            DeviceChoice::Cuda(n) => {
                let handle = open_cuda(n).map_err(|why| {
                    Error::Device(format!("--device cuda:{n} cannot be used: {why}; use --device cpu"))
                })?;
                (handle, format!("cuda:{n}"), None)
            }
            DeviceChoice::Auto => match open_cuda(0) {
                Ok(handle) => (handle, "cuda:0".to_owned(), None),
                Err(why) => (Device::Cpu, "cpu".to_owned(), Some(format!("running on the CPU: {why}"))),
            },
        };
        let on_cpu = handle.is_cpu();
        let chosen = match dtype {
            DtypeChoice::Auto if on_cpu => DtypeChoice::F32,
            DtypeChoice::Auto => DtypeChoice::Bf16,
            given => given,
        };
        if on_cpu && chosen != DtypeChoice::F32 {
            return Err(Error::Usage(format!(
                "--dtype {} is not available on the CPU, which computes in f32 here (half-precision weights are \
                 widened at load); use --dtype f32 or auto",
                chosen.name()
            )));
        }
        candle_core::cuda::set_gemm_reduced_precision_f32(chosen == DtypeChoice::Tf32);
        let dtype = match chosen {
            DtypeChoice::F16 => DType::F16,
            DtypeChoice::Bf16 => DType::BF16,
            _ => DType::F32,
        };
        Ok(Placement { device: handle, device_name, dtype, dtype_choice: chosen, note })
    }

    #[cfg(feature = "cuda")]
    fn open_cuda(ordinal: usize) -> Result<Device, String> {
        // Says better than candle what is missing: a driver, a newer one, another card.
        crate::pursuit::cuda::card(ordinal).map_err(|error| error.to_string())?;
        Device::new_cuda(ordinal)
            .map_err(|error| format!("CUDA device {ordinal} does not open ({})", first_line(&error)))
    }

    #[cfg(not(feature = "cuda"))]
    fn open_cuda(_ordinal: usize) -> Result<Device, String> {
        Err(cuda_missing_from_build().unwrap_or_default().to_owned())
    }

    /// Operations a second of a large matrix product on this device in this format: what networks can reach at best.
    ///
    /// # Errors
    /// The device fails.
    pub fn matmul_rate(placement: &Placement) -> Result<f64> {
        let fault = |error| candle_fault("the matrix product that is timed first", error);
        let side = if placement.device.is_cpu() { 1024 } else { 4096 };
        let square = || Tensor::ones((side, side), placement.dtype, &placement.device);
        let (left, right) = (square().map_err(fault)?, square().map_err(fault)?);
        let mut best = f64::INFINITY;
        for _ in 0..4 {
            let start = Instant::now();
            left.matmul(&right).and_then(|_| placement.device.synchronize()).map_err(fault)?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(2.0 * (side as f64).powi(3) / best)
    }

    /// Candle's message without the backtrace that may follow it.
    fn first_line(error: &candle_core::Error) -> String {
        error.to_string().lines().next().unwrap_or_default().to_string()
    }

    /// What candle reported while doing `what`, as this crate's error: out of memory is told apart, because
    /// the device stays usable and a smaller batch may fit.
    pub fn candle_fault(what: &str, error: candle_core::Error) -> Error {
        let text = first_line(&error);
        let lower = text.to_lowercase();
        if lower.contains("out of memory") || lower.contains("out_of_memory") {
            Error::OutOfMemory(format!("{what}: {text}; a smaller --batch needs less"))
        } else {
            Error::Device(format!("{what}: {text}"))
        }
    }
}
