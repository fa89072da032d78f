//! The steps of the networks that are worth fusing, each in two forms.
//!
//! `Fused`: one candle CustomOp with a CPU body of ours. `Stock`: a composition of candle's own operations that
//! computes the same on every device. Networks call the step; the form was chosen when they were loaded.

mod attention;
mod causal_conv;
mod cpu;
mod elementwise;
mod feed_forward;
mod gated_delta;
mod layer_norm;
mod linear;
mod prefix_attention;
mod rms_norm;
mod self_test;
mod tails;

pub use attention::{Segments, attention, attention_of_first};
pub use causal_conv::CausalConv;
pub use elementwise::{Angles, Rotary, sigmoid_gate, swiglu};
pub use feed_forward::FeedForward;
pub use gated_delta::{DeltaShape, GatedDelta};
pub use layer_norm::LayerNorm;
pub use linear::{Finish, Linear};
pub use prefix_attention::{Asking, PrefixAttention};
pub use rms_norm::RmsNorm;
pub use self_test::{Check, self_test};
pub use tails::Tails;

/// `--kernels`: which form of each step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kernels {
    /// Ours where there is one for the device, else candle's.
    #[default]
    Fused,
    /// Candle's own operations only.
    Stock,
}

impl Kernels {
    /// The name used on the command line and in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fused => "fused",
            Self::Stock => "stock",
        }
    }

    /// Whether steps on `device` run in a fused form of ours.
    fn fused_on(self, device: &candle_core::Device) -> bool {
        self == Self::Fused && device.is_cpu()
    }
}
