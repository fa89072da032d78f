//! Attention within each sequence of a packed row.

use candle_core::{D, DType, Device, Result, Tensor};

use super::Kernels;

/// The sequences of a packed row, as the kernels read them.
pub struct Segments {
    /// Cumulative lengths, `[sequences + 1]`.
    bounds: Vec<u32>,
    /// For the stock composition.
    padded: Padded,
}

/// How packed rows map into a padded batch and back, for kernels that know nothing of packed rows.
struct Padded {
    sequences: usize,
    longest: usize,
    /// Packed row for every slot, `[sequences * longest]`; empty slots repeat the sequence's first row.
    gather: Tensor,
    /// Slot of every packed row, `[tokens]`.
    scatter: Tensor,
    /// 0 for a slot in use, the lowest f32 for an empty one, `[sequences, 1, 1, longest]`.
    mask: Tensor,
}

impl Segments {
    /// The sequences between `bounds` (cumulative lengths from 0), on `device`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn new(bounds: &[u32], device: &Device, _kernels: Kernels) -> Result<Self> {
        Ok(Self { bounds: bounds.to_vec(), padded: Padded::new(bounds, device)? })
    }
}

impl Padded {
    fn new(bounds: &[u32], device: &Device) -> Result<Self> {
        let lengths = bounds.windows(2).map(|w| (w[1] - w[0]) as usize);
        let (sequences, longest) = (bounds.len() - 1, lengths.clone().max().unwrap_or(0));
        let (mut gather, mut scatter, mut mask) = (Vec::new(), Vec::new(), Vec::new());
        for (sequence, length) in lengths.enumerate() {
            let first = bounds[sequence];
            for slot in 0..longest {
                let used = slot < length;
                gather.push(if used { first + slot as u32 } else { first });
                mask.push(if used { 0f32 } else { f32::MIN });
            }
            scatter.extend((0..length).map(|slot| (sequence * longest + slot) as u32));
        }
        Ok(Self {
            sequences,
            longest,
            gather: Tensor::new(gather, device)?,
            scatter: Tensor::new(scatter, device)?,
            mask: Tensor::from_vec(mask, (sequences, 1, 1, longest), device)?,
        })
    }
}

/// softmax(Q K^T / sqrt d) V for every sequence and head.
///
/// `qkv` is `[tokens, 3 hidden]`, the three projections side by side; the result `[tokens, hidden]`.
///
/// # Errors
/// Whatever candle reports.
pub fn attention(qkv: &Tensor, segments: &Segments, heads: usize) -> Result<Tensor> {
    let hidden = qkv.dim(1)? / 3;
    let part = |i: usize| qkv.narrow(1, i * hidden, hidden)?.contiguous();
    let padded = &segments.padded;
    let context = padded_attention(&padded.batch(&part(0)?, heads)?, &part(1)?, &part(2)?, padded, heads)?;
    let slots = context.transpose(1, 2)?.reshape((padded.sequences * padded.longest, hidden))?;
    slots.index_select(&padded.scatter, 0)
}

/// Attention of each sequence's first token alone: `q` is `[sequences, hidden]`, `kv` `[tokens, 2 hidden]`, the
/// result `[sequences, hidden]`.
///
/// # Errors
/// Whatever candle reports.
pub fn attention_of_first(q: &Tensor, kv: &Tensor, segments: &Segments, heads: usize) -> Result<Tensor> {
    let (sequences, hidden) = q.dims2()?;
    let part = |i: usize| kv.narrow(1, i * hidden, hidden)?.contiguous();
    let q = q.reshape((sequences, heads, 1, hidden / heads))?;
    padded_attention(&q, &part(0)?, &part(1)?, &segments.padded, heads)?.reshape((sequences, hidden))
}

/// `q` is `[sequences, heads, queries, width]`, `k` and `v` are packed `[tokens, hidden]`.
fn padded_attention(q: &Tensor, k: &Tensor, v: &Tensor, padded: &Padded, heads: usize) -> Result<Tensor> {
    let (k, v) = (padded.batch(k, heads)?, padded.batch(v, heads)?);
    let scale = 1.0 / (q.dim(D::Minus1)? as f64).sqrt();
    let scores = (q.matmul(&k.t()?)?.to_dtype(DType::F32)? * scale)?.broadcast_add(&padded.mask)?;
    candle_nn::ops::softmax_last_dim(&scores)?.to_dtype(v.dtype())?.matmul(&v)
}

impl Padded {
    /// Packed rows `[tokens, hidden]` as `[sequences, heads, longest, width]`.
    fn batch(&self, rows: &Tensor, heads: usize) -> Result<Tensor> {
        let width = rows.dim(1)? / heads;
        rows.index_select(&self.gather, 0)?
            .reshape((self.sequences, self.longest, heads, width))?
            .transpose(1, 2)?
            .contiguous()
    }
}
