//! What goes out: one set of [`Results`], in several forms.
//!
//! A new output is one file here with a type that implements [`Exporter`].

mod columns;
mod csv;
mod figures;
mod json;
mod markdown;
mod notes;
pub mod ranking;
mod table;

pub use self::csv::Csv;
pub use self::json::Json;
pub use self::markdown::Markdown;
pub use self::table::Terminal;

use crate::error::Result;
use crate::measure::results::Results;

/// Turns results into text.
pub trait Exporter {
    /// The whole output, ending in a line break.
    fn export(&self, results: &Results) -> Result<String>;
}
