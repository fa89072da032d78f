//! The networks, on candle, over packed rows.
//!
//! A batch of texts is one row of tokens with cumulative lengths ([`PackedRows`]): no padding is computed, and
//! position numbers are integers made on the host. Activations are `[tokens, hidden]`.

pub mod config;
pub mod ops;
mod packed;
pub mod qwen3_5;
pub mod xlm_roberta;

pub use config::EncoderConfig;
pub use packed::PackedRows;
pub use qwen3_5::{Qwen3_5, Qwen3_5Config};
pub use xlm_roberta::XlmRoberta;
