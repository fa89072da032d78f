//! What goes out: one set of [`Results`], in several forms.
//!
//! A new output is one file here with a type that implements [`Exporter`].

pub mod chart;
mod columns;
pub mod compare;
mod csv;
pub mod figures;
mod grid;
mod json;
mod notes;
pub mod paper;
pub mod ranking;
pub mod reproduction;
pub mod sweep;
mod table;
mod text_table;

pub use self::csv::Csv;
pub use self::grid::{GridMarkdown, GridTerminal};
pub use self::json::Json;
pub use self::sweep::SweepFigure;
pub use self::table::{Markdown, Terminal};

use crate::error::Result;
use crate::measure::results::Results;

/// Turns results into text.
pub trait Exporter {
    /// The whole output, ending in a line break.
    fn export(&self, results: &Results) -> Result<String>;
}
