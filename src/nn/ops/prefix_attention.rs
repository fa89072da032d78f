//! Causal attention of packed sequences that share their beginning.

use candle_core::{CpuStorage, CustomOp3, D, DType, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::cpu::prefix_attention::{BlockAttention, Heads, KvPanels};
use super::cpu::rows::Rows;
use super::cpu::split;
use super::{Kernels, Tails};

/// Which tokens ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Every token.
    Every,
    /// Each sequence's last token.
    Last,
}

/// softmax(Q K^T / sqrt d) V, where a token sees the shared beginning and its own sequence up to itself.
pub struct PrefixAttention {
    heads: Heads,
    kernels: Kernels,
}

impl PrefixAttention {
    /// `query_heads` heads of `width`, which share `key_heads` keys and values evenly.
    pub fn new(query_heads: usize, key_heads: usize, width: usize, kernels: Kernels) -> Self {
        Self { heads: Heads { queries: query_heads, keys: key_heads, width }, kernels }
    }

    /// `q` is `[asking, query heads * width]`; `kv` `[tokens, keys | values]` of the sequences, `prefix` the same of
    /// the shared beginning (no rows where there is none). The result is like `q`.
    ///
    /// # Errors
    /// Whatever candle reports.
    pub fn forward(
        &self,
        q: &Tensor,
        kv: &Tensor,
        prefix: &Tensor,
        tails: &Tails,
        asking: Asking,
    ) -> Result<Tensor> {
        if self.kernels.fused_on(q.device()) {
            return q.apply_op3_no_bwd(
                kv,
                prefix,
                &Fused { heads: self.heads, bounds: &tails.bounds, asking },
            );
        }
        self.stock(q, kv, prefix, tails, asking)
    }

    fn stock(
        &self,
        q: &Tensor,
        kv: &Tensor,
        prefix: &Tensor,
        tails: &Tails,
        asking: Asking,
    ) -> Result<Tensor> {
        let Heads { queries, keys, width } = self.heads;
        let Some(padded) = &tails.padded else {
            candle_core::bail!("the stock form of attention needs padded tails")
        };
        let (sequences, longest, shared) = (padded.sequences, padded.longest, prefix.dim(0)?);
        let own = padded.pad(kv)?;
        let all = if shared == 0 {
            own
        } else {
            let prefix = prefix.unsqueeze(0)?.broadcast_as((sequences, shared, 2 * keys * width))?;
            Tensor::cat(&[&prefix.contiguous()?, &own], 1)?
        };
        let all_tokens = shared + longest;
        // [sequences * key heads, 1, tokens, width]: candle multiplies up to four dimensions.
        let of_heads = |first: usize| -> Result<Tensor> {
            all.narrow(2, first, keys * width)?
                .reshape((sequences, all_tokens, keys, width))?
                .transpose(1, 2)?
                .reshape((sequences * keys, 1, all_tokens, width))
        };
        let asked = match asking {
            Asking::Every => padded.pad(q)?,
            Asking::Last => q.contiguous()?.unsqueeze(1)?,
        };
        let (rows, group) = (asked.dim(1)?, queries / keys);
        let q = asked.reshape((sequences, rows, keys, group, width))?.permute((0, 2, 3, 1, 4))?.reshape((
            sequences * keys,
            group,
            rows,
            width,
        ))?;
        let spread = |x: Tensor| x.broadcast_as((sequences * keys, group, all_tokens, width))?.contiguous();
        let (k, v) = (spread(of_heads(0)?)?, spread(of_heads(keys * width)?)?);
        let scores = (q.matmul(&k.t()?)?.to_dtype(DType::F32)? / (width as f64).sqrt())?;
        let scores = scores.reshape((sequences, keys * group, rows, all_tokens))?;
        let mask = self.mask(shared, longest, tails, asking, q.device())?;
        let weights = candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, D::Minus1)?;
        let weights = weights.to_dtype(v.dtype())?.reshape((sequences * keys, group, rows, all_tokens))?;
        let context = weights.matmul(&v)?.reshape((sequences, keys * group, rows, width))?.transpose(1, 2)?;
        let context = context.reshape((sequences, rows, queries * width))?;
        match asking {
            Asking::Every => padded.unpad(&context),
            Asking::Last => context.squeeze(1),
        }
    }

    /// 0 where a token is seen, the lowest f32 where not: `[1 or sequences, 1, rows, shared + longest]`.
    fn mask(
        &self,
        shared: usize,
        longest: usize,
        tails: &Tails,
        asking: Asking,
        device: &candle_core::Device,
    ) -> Result<Tensor> {
        let row =
            |last: usize| (0..shared + longest).map(move |t| if t <= shared + last { 0.0 } else { f32::MIN });
        let all = shared + longest;
        match asking {
            Asking::Every => {
                let mask: Vec<f32> = (0..longest).flat_map(row).collect();
                Tensor::from_vec(mask, (1, 1, longest, all), device)
            }
            Asking::Last => {
                let lasts = tails.bounds.windows(2).map(|w| (w[1] - w[0] - 1) as usize);
                let mask: Vec<f32> = lasts.flat_map(row).collect();
                Tensor::from_vec(mask, (tails.bounds.len() - 1, 1, 1, all), device)
            }
        }
    }
}

/// On the CPU, block of tokens by block of tokens.
struct Fused<'a> {
    heads: Heads,
    bounds: &'a [u32],
    asking: Asking,
}

/// Most tokens of one block: enough to make laying out a sequence's keys and values for it cheap.
const BLOCK_TOKENS: usize = 64;

/// Consecutive asking tokens of one sequence.
struct Block {
    /// The sequence's first row among keys and values.
    sequence: usize,
    /// The block's first row among the queries.
    query: usize,
    /// The block's first token within its sequence.
    position: usize,
    tokens: usize,
}

impl Fused<'_> {
    fn blocks(&self) -> Vec<Block> {
        let sequences = self.bounds.windows(2).map(|w| (w[0] as usize, (w[1] - w[0]) as usize));
        match self.asking {
            Asking::Every => sequences
                .flat_map(|(first, length)| {
                    (0..length).step_by(BLOCK_TOKENS).map(move |from| Block {
                        sequence: first,
                        query: first + from,
                        position: from,
                        tokens: BLOCK_TOKENS.min(length - from),
                    })
                })
                .collect(),
            Asking::Last => sequences
                .enumerate()
                .map(|(query, (sequence, length))| Block { sequence, query, position: length - 1, tokens: 1 })
                .collect(),
        }
    }
}

impl CustomOp3 for Fused<'_> {
    fn name(&self) -> &'static str {
        "fused-prefix-attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        kv: &CpuStorage,
        kv_layout: &Layout,
        prefix: &CpuStorage,
        prefix_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        const STEP: &str = "the fused attention";
        let (q, kv) = (Rows::new(q, q_layout, STEP)?, Rows::new(kv, kv_layout, STEP)?);
        let prefix = Rows::new(prefix, prefix_layout, STEP)?;
        let (asking, width) = q_layout.shape().dims2()?;
        let (shared, _) = prefix_layout.shape().dims2()?;
        // Laid out once for all sequences.
        let prefixes: Vec<KvPanels> = (0..self.heads.keys)
            .into_par_iter()
            .map(|head| {
                let mut panels = KvPanels::default();
                panels.lay_out(prefix, 0, shared, self.heads, head);
                panels
            })
            .collect();
        let mut out = vec![0f32; asking * width];
        let blocks = self.blocks();
        let parts = split(&mut out, blocks.iter().map(|block| block.tokens * width));
        let work: Vec<_> = blocks.iter().zip(parts).collect();
        work.into_par_iter().for_each_init(<(KvPanels, Vec<f32>)>::default, |(own, scores), (block, out)| {
            for (key_head, prefix) in prefixes.iter().enumerate() {
                own.lay_out(kv, block.sequence, block.position + block.tokens, self.heads, key_head);
                BlockAttention {
                    queries: q,
                    first: block.query,
                    position: block.position,
                    heads: self.heads,
                    key_head,
                    prefix,
                    own,
                    out,
                    scores,
                }
                .run();
            }
        });
        Ok((CpuStorage::F32(out), q_layout.shape().clone()))
    }
}
