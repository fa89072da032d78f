//! What is timed, by which clock, and what the times say.

pub mod clock;
pub mod compare;
pub mod environment;
pub mod interleave;
pub mod plan;
pub mod reproduction;
pub mod results;
pub mod statistics;
