//! `doctor`: what this machine and this build can do.

use clap::Args;

use super::output::Output;
use crate::device::{self, DeviceChoice, GpuReport};
use crate::error::{Error, Result};
use crate::measure::environment::Environment;

#[derive(Debug, Args)]
pub struct Flags {
    /// Run the selector's kernels and every step of the networks on the GPU against their CPU twins, a line each;
    /// exit code 1 where one differs
    #[arg(long)]
    self_test: bool,
    /// What is tested: cuda, cuda:N, or cpu (candle's own operations against the fused ones)
    #[arg(long, value_name = "DEVICE", default_value = "cuda", requires = "self_test")]
    device: String,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let threads = super::use_threads(None)?;
    let device: DeviceChoice = flags.device.parse()?;
    let report = device::gpu_report(device);
    Output::stdout().write(&overview(&Environment::detect(threads), &report))?;
    if flags.self_test {
        return self_test(device, &report);
    }
    Ok(())
}

fn overview(environment: &Environment, report: &GpuReport) -> String {
    let build = &environment.build;
    let features = if build.features.is_empty() { "none".into() } else { build.features.join(" ") };
    let flags = if build.cpu_flags.is_empty() { "none".into() } else { build.cpu_flags.join(" ") };
    let mut lines = vec![
        ("build", format!("rerank-bench {} ({}), features: {features}", build.version, build.commit)),
        ("system", environment.system.clone()),
        (
            "processor",
            format!("{}, {} cores, vector instructions: {flags}", environment.cpu, environment.cores),
        ),
    ];
    lines.extend(report.facts.iter().map(|(name, fact)| (*name, fact.clone())));
    match &report.problem {
        None => lines.push(("gpu", "ready".into())),
        Some(problem) => lines.push(("gpu", format!("not usable: {problem}"))),
    }
    lines.into_iter().map(|(name, fact)| format!("{name:<10} {fact}\n")).collect()
}

fn self_test(device: DeviceChoice, report: &GpuReport) -> Result<()> {
    if let Some(problem) = report.problem.as_ref().filter(|_| device != DeviceChoice::Cpu) {
        return Err(Error::Device(format!("there is nothing to test: {problem}")));
    }
    let mut off = 0;
    for check in device::self_test(device)? {
        off += usize::from(!check.passed);
        let verdict = if check.passed { "ok" } else { "OFF" };
        Output::stdout().write(&format!("{verdict:<4} {}\n", check.line))?;
    }
    if off > 0 {
        return Err(Error::Device(format!(
            "{off} checks are off: do not trust this device's results with this build"
        )));
    }
    Ok(())
}
