//! Lines of a text file that may be compressed, with their numbers.
//!
//! Compression is told by the first bytes, not by the name, so that standard input and misnamed files are
//! read too. What is tolerated: a byte order mark, CRLF, a last line without its end.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::error::{Error, Result};

/// A source of bytes that another thread may read.
type Input = Box<dyn Read + Send>;

/// Reads a file line by line.
pub struct Lines {
    path: PathBuf,
    input: Box<dyn BufRead + Send>,
    line: usize,
    buffer: Vec<u8>,
}

impl Lines {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// The file is missing, unreadable, or a folder.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::file(path, format!("cannot open it: {error}")))?;
        if file.metadata().is_ok_and(|data| data.is_dir()) {
            return Err(Error::file(path, "is a folder, and a file was expected here"));
        }
        Self::new(path, Box::new(file))
    }

    /// Reads `input`; `path` names it in messages.
    ///
    /// # Errors
    /// The first bytes cannot be read, or they begin a broken compressed frame.
    pub fn new(path: &Path, input: Input) -> Result<Self> {
        let input = decompressed(input).map_err(|error| Error::file(path, unreadable(0, &error)))?;
        Ok(Self { path: path.to_owned(), input, line: 0, buffer: Vec::new() })
    }

    /// The name given to [`Lines::new`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next line without its end, and its 1-based number; `None` at the end of the file.
    ///
    /// # Errors
    /// Reading failed (a fault of the file, after which there is nothing more to read), or the line is not
    /// UTF-8 (a fault of the line; the next one can be read).
    pub fn next_line(&mut self) -> Option<Result<(usize, &str)>> {
        self.buffer.clear();
        match self.input.read_until(b'\n', &mut self.buffer) {
            Ok(0) => return None,
            Ok(_) => self.line += 1,
            Err(error) => {
                return Some(Err(Error::file(&self.path, unreadable(self.line, &error))));
            }
        }
        let mut line = &self.buffer[..];
        if self.line == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        Some(match str::from_utf8(line) {
            Ok(line) => Ok((self.line, line)),
            Err(error) => Err(Error::line(
                &self.path,
                self.line,
                format!("is not UTF-8 from byte {} on; convert the file to UTF-8", error.valid_up_to() + 1),
            )),
        })
    }
}

fn unreadable(line: usize, error: &io::Error) -> String {
    format!("reading stopped after line {line}: {error}")
}

/// `input`, through a decoder where its first bytes ask for one.
fn decompressed(mut input: Input) -> io::Result<Box<dyn BufRead + Send>> {
    let mut magic = Vec::with_capacity(4);
    (&mut input).take(4).read_to_end(&mut magic)?;
    let whole = BufReader::with_capacity(1 << 16, Cursor::new(magic.clone()).chain(input));
    Ok(match magic[..] {
        [0x1f, 0x8b, ..] => Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(whole))),
        // A frame, or one to be skipped (RFC 8878, 3.1.2), as parallel compressors write first.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            let frames = Frames { source: whole, decoder: FrameDecoder::new(), inside: false };
            Box::new(BufReader::with_capacity(1 << 16, frames))
        }
        _ => Box::new(whole),
    })
}

/// The decoded content of a series of Zstandard frames, checksums verified.
struct Frames {
    source: Source,
    decoder: FrameDecoder,
    /// True from a frame's header to its last byte.
    inside: bool,
}

type Source = BufReader<Chain<Cursor<Vec<u8>>, Input>>;

impl Read for Frames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside {
                if out.is_empty() || self.source.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin_frame()?;
                continue;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let block = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, block).map_err(io::Error::other)?;
            }
            let count = self.decoder.read(out)?;
            if count > 0 || out.is_empty() {
                return Ok(count);
            }
            let stored = self.decoder.get_checksum_from_data();
            if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
                return Err(io::Error::other("a compressed frame fails its checksum"));
            }
            self.inside = false;
        }
    }
}

impl Frames {
    /// Reads a frame's header; a frame that carries no content is skipped.
    fn begin_frame(&mut self) -> io::Result<()> {
        match self.decoder.reset(&mut self.source) {
            Ok(()) => self.inside = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let length = u64::from(length);
                if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }
}
