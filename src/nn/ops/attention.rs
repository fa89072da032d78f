//! Attention within each sequence of a packed row.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, D, DType, Device, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::Kernels;
use super::cpu::attention::{BlockAttention, Scratch, Slab};
use super::cpu::{split, values};

/// The sequences of a packed row, as the kernels read them.
pub struct Segments {
    form: Form,
}

enum Form {
    /// Cumulative lengths, `[sequences + 1]`.
    Fused(Arc<[u32]>),
    Stock(Padded),
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
    pub fn new(bounds: &[u32], device: &Device, kernels: Kernels) -> Result<Self> {
        let form = if kernels.fused_on(device) {
            Form::Fused(bounds.into())
        } else {
            Form::Stock(Padded::new(bounds, device)?)
        };
        Ok(Self { form })
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
    let padded = match &segments.form {
        Form::Fused(bounds) => {
            return qkv.apply_op1_no_bwd(&FusedAttention { bounds: bounds.clone(), heads });
        }
        Form::Stock(padded) => padded,
    };
    let part = |i: usize| qkv.narrow(1, i * hidden, hidden)?.contiguous();
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
    let padded = match &segments.form {
        Form::Fused(bounds) => {
            return q.apply_op2_no_bwd(kv, &FusedAttention { bounds: bounds.clone(), heads });
        }
        Form::Stock(padded) => padded,
    };
    let part = |i: usize| kv.narrow(1, i * hidden, hidden)?.contiguous();
    let q = q.reshape((sequences, heads, 1, hidden / heads))?;
    padded_attention(&q, &part(0)?, &part(1)?, padded, heads)?.reshape((sequences, hidden))
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

/// Both attentions on the CPU, block of query rows by block of query rows.
struct FusedAttention {
    bounds: Arc<[u32]>,
    heads: usize,
}

/// Query rows of one block: enough to make laying out a sequence's keys and values for it cheap.
const BLOCK_ROWS: usize = 96;

impl FusedAttention {
    /// Each sequence's first row and length.
    fn sequences(&self) -> impl Iterator<Item = (usize, usize)> {
        self.bounds.windows(2).map(|w| (w[0] as usize, (w[1] - w[0]) as usize))
    }
}

impl CustomOp1 for FusedAttention {
    fn name(&self) -> &'static str {
        "fused-packed-attention"
    }

    fn cpu_fwd(&self, qkv: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let qkv = values(qkv, layout, "fused attention")?;
        let (tokens, stride) = layout.shape().dims2()?;
        let hidden = stride / 3;
        // (first row of the sequence, its length, first query row, query rows)
        let blocks: Vec<[usize; 4]> = self
            .sequences()
            .flat_map(|(first, length)| {
                let rows = move |from: usize| BLOCK_ROWS.min(length - from);
                (0..length).step_by(BLOCK_ROWS).map(move |from| [first, length, first + from, rows(from)])
            })
            .collect();
        let mut out = vec![0f32; tokens * hidden];
        let parts = split(&mut out, blocks.iter().map(|[_, _, _, rows]| rows * hidden));
        let work: Vec<_> = blocks.iter().zip(parts).collect();
        work.into_par_iter().for_each_init(Scratch::default, |scratch, ([first, length, query, _], out)| {
            let slab = |row: usize, column| Slab { values: &qkv[row * stride..], stride, column };
            BlockAttention {
                queries: slab(*query, 0),
                keys: slab(*first, hidden),
                values: slab(*first, 2 * hidden),
                length: *length,
                heads: self.heads,
                width: hidden / self.heads,
                out,
                scratch,
            }
            .run();
        });
        Ok((CpuStorage::F32(out), Shape::from((tokens, hidden))))
    }
}

impl CustomOp2 for FusedAttention {
    fn name(&self) -> &'static str {
        "fused-packed-attention-of-first"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        kv: &CpuStorage,
        kv_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let q = values(q, q_layout, "fused attention")?;
        let kv = values(kv, kv_layout, "fused attention")?;
        let (_, hidden) = q_layout.shape().dims2()?;
        let mut out = vec![0f32; q.len()];
        let sequences: Vec<_> = self.sequences().zip(q.chunks_exact(hidden)).collect();
        out.par_chunks_exact_mut(hidden).zip(sequences).for_each_init(
            Scratch::default,
            |scratch, (out, ((first, length), query))| {
                let stride = 2 * hidden;
                let slab = |column| Slab { values: &kv[first * stride..], stride, column };
                BlockAttention {
                    queries: Slab { values: query, stride: hidden, column: 0 },
                    keys: slab(0),
                    values: slab(hidden),
                    length,
                    heads: self.heads,
                    width: hidden / self.heads,
                    out,
                    scratch,
                }
                .run();
            },
        );
        Ok((CpuStorage::F32(out), q_layout.shape().clone()))
    }
}
