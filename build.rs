//! Records the commit that the program is built from, and compiles the kernels where a feature asks for them.

#[cfg(any(feature = "cuda", feature = "emulator"))]
#[path = "build/kernels.rs"]
mod kernels;

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src");
    // A package unpacked from a registry has no repository; then the commit is unknown and nothing is watched.
    if let Some(head) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={head}");
    }
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    println!("cargo:rustc-env=RERANK_BENCH_COMMIT={}", commit.as_deref().unwrap_or("unknown"));

    #[cfg(feature = "cuda")]
    kernels::compile_ptx();
    #[cfg(feature = "emulator")]
    kernels::compile_emulator();
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}
