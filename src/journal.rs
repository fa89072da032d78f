//! Files of JSON Lines that grow line by line and are taken up again after an interruption.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use crate::error::{Error, Result};

/// Opens `path` for appending behind its last whole line, after showing each whole line (with its 1-based number)
/// to `line`. What an interruption tore is cut off; a file that is not there is begun.
///
/// # Errors
/// The file cannot be opened, read or cut; what `line` refuses.
pub fn reopen(path: &Path, mut line: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<File> {
    let fault = |error: io::Error| Error::file(path, format!("cannot be taken up again: {error}"));
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(fault)?;
    let (mut number, mut end) = (0, 0);
    let mut reader = BufReader::new(&file);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let length = reader.read_until(b'\n', &mut bytes).map_err(fault)?;
        if bytes.last() != Some(&b'\n') {
            break;
        }
        number += 1;
        line(number, &bytes)?;
        end += length as u64;
    }
    file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end))).map_err(fault)?;
    Ok(file)
}
