//! The kernels of `kernels/`: PTX inside the program (feature `cuda`), and the emulator that runs them on the CPU
//! (feature `emulator`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// What the PTX is compiled for: the oldest card that we run on. The driver compiles it for the one that is there.
#[cfg(feature = "cuda")]
const VIRTUAL_ARCHITECTURE: &str = "compute_80";

/// Set for an emulator under AddressSanitizer and UndefinedBehaviorSanitizer; `scripts/sanitize_kernels.sh` sets it.
#[cfg(feature = "emulator")]
const SANITIZE: &str = "RERANK_BENCH_SANITIZE_KERNELS";

/// Compiles every `kernels/*.cu` to PTX in the build's output folder.
#[cfg(feature = "cuda")]
pub fn compile_ptx() {
    watch();
    for name in ["NVCC", "CUDA_HOME", "CUDA_PATH", "PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rustc-env=RERANK_BENCH_PTX_TARGET={VIRTUAL_ARCHITECTURE}");
    let ptx = output().join("pursuit.ptx");
    let mut nvcc = Command::new(nvcc());
    nvcc.args(["-std=c++17", "-ptx", "-lineinfo", "-arch", VIRTUAL_ARCHITECTURE, "kernels/pursuit.cu", "-o"]);
    compile(
        nvcc.arg(&ptx),
        &ptx,
        "the feature `cuda` needs nvcc 13.0 or newer: run `eval \"$(scripts/cuda_toolkit.sh --env)\"` in this shell, or \
         set NVCC or CUDA_HOME to an installed toolkit",
    );
}

/// Compiles the emulator with all kernels and links it in.
#[cfg(feature = "emulator")]
pub fn compile_emulator() {
    watch();
    for name in ["CXX", "AR", SANITIZE] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let object = output().join("emulator.o");
    let archive = output().join("libkernel_emulator.a");
    let mut compiler = Command::new(std::env::var("CXX").unwrap_or_else(|_| "c++".into()));
    compiler.args([
        "-std=c++20",
        "-O2",
        "-g1",
        "-march=native",
        "-fPIC",
        "-Wall",
        "-Wextra",
        "-Wno-unknown-pragmas",
    ]);
    let sanitize = std::env::var_os(SANITIZE).is_some();
    if sanitize {
        compiler.args([
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-fno-omit-frame-pointer",
        ]);
    }
    compiler.args(["-x", "c++", "-c", "kernels/emu/library.cpp", "-o"]);
    compile(
        compiler.arg(&object),
        &object,
        "the feature `emulator` needs a C++20 compiler as `c++` or in CXX",
    );
    let mut archiver = Command::new(std::env::var("AR").unwrap_or_else(|_| "ar".into()));
    run(archiver.arg("crs").args([&archive, &object]), "the feature `emulator` needs `ar`, or AR set to one");
    println!("cargo:rustc-link-search=native={}", output().display());
    println!("cargo:rustc-link-lib=static=kernel_emulator");
    println!("cargo:rustc-link-lib=stdc++");
    if sanitize {
        println!("cargo:rustc-link-lib=asan");
        println!("cargo:rustc-link-lib=ubsan");
    }
}

fn watch() {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=kernels");
}

fn output() -> PathBuf {
    PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}

/// The compiler named by NVCC, that of CUDA_HOME or CUDA_PATH, or the one on PATH.
#[cfg(feature = "cuda")]
fn nvcc() -> PathBuf {
    if let Some(path) = std::env::var_os("NVCC") {
        return path.into();
    }
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    homes
        .map(|home| Path::new(&home).join("bin/nvcc"))
        .find(|nvcc| nvcc.exists())
        .unwrap_or_else(|| "nvcc".into())
}

/// Runs a compiler unless its output is there, from the same command and newer than all kernels: this script also runs
/// when only Rust code has changed.
fn compile(command: &mut Command, output: &Path, missing: &str) {
    let record = output.with_extension("command");
    let told = format!("{command:?}");
    let same = std::fs::read_to_string(&record).is_ok_and(|known| known == told);
    let modified = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    if same && modified(output) > newest(Path::new("kernels")).max(modified(Path::new("build/kernels.rs"))) {
        return;
    }
    run(command, missing);
    // Without the record the next build compiles again; no reason to end this one.
    let _ = std::fs::write(record, told);
}

/// When the newest file under `folder` was written.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries
        .filter_map(|path| if path.is_dir() { newest(&path) } else { path.metadata().ok()?.modified().ok() })
        .max()
}

/// Runs a compiler, or ends the build with one sentence.
fn run(command: &mut Command, missing: &str) {
    let program = Path::new(command.get_program()).display().to_string();
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(_) => fail(&format!("{program} could not compile the kernels; its message is above")),
        Err(_) => fail(&format!("{program} does not start; {missing}")),
    }
}

fn fail(message: &str) -> ! {
    println!("cargo:warning={message}");
    std::process::exit(1)
}
