//! Parse, run, exit code; everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    rerank_bench::cli::main()
}
