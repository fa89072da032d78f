//! The machine and the build that a measurement belongs to.

use serde::Serialize;

use crate::device::{self, DeviceChoice};

/// Machine and build, as they go into every result file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Environment {
    /// Processor's model name.
    pub cpu: String,
    /// Logical processors that this process may use.
    pub cores: usize,
    /// Threads used.
    pub threads: usize,
    /// Operating system and architecture.
    pub system: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    pub build: Build,
}

/// The build of this program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Build {
    pub version: String,
    /// Commit it was built from, with `-dirty` where the tree had changes; `unknown` outside a checkout.
    pub commit: String,
    /// Cargo features.
    pub features: Vec<String>,
    /// Vector instructions found at run time, which the CPU kernels choose between.
    pub cpu_flags: Vec<String>,
}

impl Environment {
    /// What this process runs on. `threads` is the number of threads in use.
    pub fn detect(threads: usize) -> Self {
        Self {
            cpu: cpu_model().unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            threads,
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            gpu: None,
            driver: None,
            cuda: None,
            build: Build::this(),
        }
    }

    /// With the GPU that `device` stands for, where there is one.
    pub fn with_gpu(self, device: DeviceChoice) -> Self {
        match device::gpu(device) {
            Some(gpu) => Self { gpu: Some(gpu.name), driver: gpu.driver, cuda: Some(gpu.cuda), ..self },
            None => self,
        }
    }
}

impl Build {
    /// This build.
    pub fn this() -> Self {
        let mut features = Vec::new();
        for (name, on) in [
            ("neural", cfg!(feature = "neural")),
            ("cuda", cfg!(feature = "cuda")),
            ("emulator", cfg!(feature = "emulator")),
        ] {
            if on {
                features.push(name.to_string());
            }
        }
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: env!("RERANK_BENCH_COMMIT").into(),
            features,
            cpu_flags: cpu_flags().into_iter().map(String::from).collect(),
        }
    }
}

fn cpu_model() -> Option<String> {
    if cfg!(target_os = "macos") {
        let out =
            std::process::Command::new("sysctl").args(["-n", "machdep.cpu.brand_string"]).output().ok()?;
        return Some(String::from_utf8_lossy(&out.stdout).trim().to_string()).filter(|name| !name.is_empty());
    }
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

#[cfg(target_arch = "x86_64")]
fn cpu_flags() -> Vec<&'static str> {
    let mut flags = Vec::new();
    for (name, on) in [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
    ] {
        if on {
            flags.push(name);
        }
    }
    flags
}

#[cfg(target_arch = "aarch64")]
fn cpu_flags() -> Vec<&'static str> {
    vec!["neon"]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cpu_flags() -> Vec<&'static str> {
    Vec::new()
}
