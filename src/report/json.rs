//! The result file of `--json`: every raw time, and what it was measured on.

use super::Exporter;
use crate::error::{Error, Result};
use crate::measure::results::Results;

/// Pretty-printed JSON of the whole [`Results`].
#[derive(Debug, Default)]
pub struct Json;

impl Exporter for Json {
    fn export(&self, results: &Results) -> Result<String> {
        let mut text = serde_json::to_string_pretty(results)
            .map_err(|error| Error::Output { to: "JSON".into(), source: error.into() })?;
        text.push('\n');
        Ok(text)
    }
}
