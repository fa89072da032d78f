//! Times the selector on a pool file with a store, round by round, for `scripts/peers.py`.
//!
//! `selector_times POOLS.jsonl P K f32|f16|bf16 store|matrix|corpus` reads the pools, then answers each line `FROM TO` on
//! stdin with one line of JSON on stdout: the milliseconds of each of those pools, one thread, one after the
//! other. `store` takes the rows where they lie, `matrix` gives every pool a dense matrix of its own, and
//! `corpus` keeps the similarities among memories from one pool to the next. A line `many THREADS` answers with
//! the milliseconds of all pools at once through `Corpus::select_many`, `forget` with 0 and an empty cache. A line
//! `orders` answers with the orders of all pools.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use half::{bf16, f16};
use rerank_bench::pursuit::{Corpus, Elements, Normalize, Options, Path, Question, Rows, Scratch, pursue};
use safetensors::SafeTensors;

/// Vectors kept in the element type under test.
enum Stored {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Stored {
    fn new(values: Vec<f32>, dtype: &str) -> Result<Self> {
        Ok(match dtype {
            "f32" => Stored::F32(values),
            "f16" => Stored::F16(values.into_iter().map(f16::from_f32).collect()),
            "bf16" => Stored::Bf16(values.into_iter().map(bf16::from_f32).collect()),
            other => bail!("unknown element type {other}"),
        })
    }

    fn elements(&self) -> Elements<'_> {
        match self {
            Stored::F32(values) => Elements::F32(values),
            Stored::F16(values) => Elements::F16(values),
            Stored::Bf16(values) => Elements::Bf16(values),
        }
    }
}

struct Pool {
    query: Vec<f32>,
    rows: Vec<u32>,
    matrix: Option<Stored>,
}

#[derive(serde::Deserialize)]
struct Line {
    query_row: usize,
    rows: Vec<u32>,
    embeddings: PathBuf,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, candidates, budget, dtype, layout] = &arguments[..] else {
        bail!("usage: selector_times POOLS.jsonl P K f32|f16|bf16 store|matrix|corpus");
    };
    let candidates: usize = candidates.parse()?;
    let options = Options { budget: budget.parse()?, ..Options::default() };

    let file = PathBuf::from(file);
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let lines: Vec<Line> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let store = file.with_file_name(&lines.first().context("no pools")?.embeddings);
    let bytes = std::fs::read(store)?;
    let tensors = SafeTensors::deserialize(&bytes)?;
    let read = |name: &str| -> Result<(usize, Vec<f32>)> {
        let tensor = tensors.tensor(name)?;
        let values = tensor.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        Ok((tensor.shape()[1], values.collect()))
    };
    let ((dimension, memories), (_, queries)) = (read("memories")?, read("queries")?);
    let mut pools = Vec::new();
    for line in lines {
        let rows: Vec<u32> = line.rows.into_iter().take(candidates).collect();
        let matrix = match layout.as_str() {
            "matrix" => {
                let row = |&row: &u32| memories[row as usize * dimension..][..dimension].to_vec();
                Some(Stored::new(rows.iter().flat_map(row).collect(), dtype)?)
            }
            _ => None,
        };
        pools.push(Pool { query: queries[line.query_row * dimension..][..dimension].to_vec(), rows, matrix });
    }
    let memories = Stored::new(memories, dtype)?;

    let mut scratch = Scratch::new();
    let new_corpus = || Corpus::new(memories.elements(), dimension, Normalize::Yes, 256 << 20);
    let mut corpus = new_corpus()?;
    let mut select = |pool: &Pool, corpus: &Corpus<'_>| -> Result<(f64, Path)> {
        let clock = Instant::now();
        if layout == "corpus" {
            let path = corpus.select(Elements::F32(&pool.query), &pool.rows, &options, &mut scratch)?;
            return Ok((clock.elapsed().as_secs_f64() * 1e3, path));
        }
        let rows = match &pool.matrix {
            Some(matrix) => Rows::dense(matrix.elements(), dimension)?,
            None => Rows::gathered(memories.elements(), dimension, &pool.rows)?,
        };
        let path = pursue(Elements::F32(&pool.query), &rows, &options, &mut scratch)?;
        Ok((clock.elapsed().as_secs_f64() * 1e3, path))
    };
    let mut out = std::io::stdout();
    writeln!(out, "{}", pools.len())?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line == "orders" {
            let orders =
                pools.iter().map(|pool| Ok(select(pool, &corpus)?.1.order)).collect::<Result<Vec<_>>>()?;
            writeln!(out, "{}", serde_json::to_string(&orders)?)?;
        } else if line == "forget" {
            corpus = new_corpus()?;
            writeln!(out, "0")?;
        } else if let Some(threads) = line.strip_prefix("many ") {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(threads.parse()?).build()?;
            let questions: Vec<Question<'_>> = pools
                .iter()
                .map(|pool| Question { query: Elements::F32(&pool.query), rows: &pool.rows })
                .collect();
            let clock = Instant::now();
            let paths = threads.install(|| corpus.select_many(&questions, &options));
            let time = clock.elapsed().as_secs_f64() * 1e3;
            paths.into_iter().collect::<Result<Vec<_>, _>>()?;
            writeln!(out, "{time}")?;
        } else {
            let (from, to) = line.split_once(' ').context("give FROM TO")?;
            let chosen = &pools[from.parse()?..to.parse::<usize>()?.min(pools.len())];
            let times = chosen.iter().map(|pool| Ok(select(pool, &corpus)?.0)).collect::<Result<Vec<_>>>()?;
            writeln!(out, "{}", serde_json::to_string(&times)?)?;
        }
        out.flush()?;
    }
    Ok(())
}
