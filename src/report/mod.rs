//! What goes out: one set of [`Results`], in several forms.
//!
//! A new output is one file here with a type that implements [`Exporter`].

mod columns;
pub mod compare;
mod csv;
mod figures;
mod grid;
mod json;
mod notes;
pub mod paper;
pub mod ranking;
mod table;
mod text_table;

pub use self::csv::Csv;
pub use self::grid::{GridMarkdown, GridTerminal};
pub use self::json::Json;
pub use self::table::{Markdown, Terminal};

use crate::error::Result;
use crate::measure::results::Results;

/// Turns results into text.
pub trait Exporter {
    /// The whole output, ending in a line break.
    fn export(&self, results: &Results) -> Result<String>;
}
