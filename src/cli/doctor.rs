//! `doctor`: what this machine and this build can do.

use clap::Args;

use super::output::Output;
use crate::device::{self, GpuReport};
use crate::error::{Error, Result};
use crate::measure::environment::Environment;

#[derive(Debug, Args)]
pub struct Flags {
    /// Run the GPU's kernels against their CPU twins; exit code 1 where one differs
    #[arg(long)]
    self_test: bool,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let threads = super::use_threads(None)?;
    let report = device::gpu_report();
    Output::stdout().write(&overview(&Environment::detect(threads), &report))?;
    if flags.self_test {
        return self_test(&report);
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

fn self_test(report: &GpuReport) -> Result<()> {
    if let Some(problem) = &report.problem {
        return Err(Error::Device(format!("there is nothing to test: {problem}")));
    }
    let mut off = 0;
    for check in device::self_test()? {
        off += usize::from(!check.passed);
        let verdict = if check.passed { "ok" } else { "OFF" };
        Output::stdout().write(&format!("{verdict:<4} {}\n", check.line))?;
    }
    if off > 0 {
        return Err(Error::Device(format!(
            "{off} checks are off: do not trust this GPU's results with this build"
        )));
    }
    Ok(())
}
