//! Where pools come from: a file, standard input, a data set, or the generator.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::pool::{Pool, jsonl, locomo};

/// A stream of pools. After a fault it can go on with the next pool.
pub type Pools = Box<dyn Iterator<Item = Result<Pool>> + Send>;

/// Opens `--input`: a pool file (`-` for standard input), or `locomo:PATH`.
pub fn open(input: &str) -> Result<Pools> {
    if let Some(path) = input.strip_prefix("locomo:") {
        return Ok(Box::new(locomo::pools(Path::new(path))?.into_iter().map(Ok)));
    }
    Ok(Box::new(jsonl::Reader::open(input)?))
}

/// Standard input where it is not a terminal, for commands that need an input.
pub fn open_or_stdin(input: Option<&str>) -> Result<Pools> {
    match input {
        Some(input) => open(input),
        None if std::io::stdin().is_terminal() => {
            Err(Error::Usage("no pools: give --input FILE, or pipe a pool file into standard input".into()))
        }
        None => open("-"),
    }
}

/// What a workload is called in reports.
pub fn name(input: &str) -> String {
    if input == "-" {
        return "standard input".into();
    }
    let path = PathBuf::from(input);
    path.file_name().map_or_else(|| input.to_string(), |name| name.to_string_lossy().into_owned())
}
