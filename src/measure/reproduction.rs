//! The plan that reproduces the paper's efficiency results, and what came of it.

use std::time::Duration;

use serde::Serialize;

use super::environment::Environment;
use super::plan::{Cell, Variant};
use super::results::Row;
use crate::policy::Kind;

/// A part of the report, named as in the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Batches of 128.
    Table12,
    /// All candidates in one batch.
    Table13,
    /// The selector over pool sizes and budgets.
    Table14,
    /// Latency over batch sizes.
    Figure9,
    /// The same cell several times.
    Variance,
}

/// Shape of a reranker's network, for operation counts and estimates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Network {
    pub model: String,
    pub kind: Kind,
    /// Layers, L.
    pub layers: usize,
    /// Width, W.
    pub width: usize,
    /// Parameters that multiply every token: all but the embeddings.
    pub body_parameters: u64,
}

/// What is planned.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Small pools and few questions for all but the first model.
    pub quick: bool,
    /// Pools timed in the cells of Tables 12 and 13; `None` leaves it to the model's cost.
    pub questions: Option<usize>,
    /// Untimed passes of full shape before a reranker's cell; 0 is a small one.
    pub warmup: usize,
    /// Batches of Figure 9.
    pub batches: Vec<usize>,
    /// Table 14's pool sizes and budgets.
    pub grid: (Vec<usize>, Vec<usize>),
}

/// The paper's workload: P and K.
pub const CANDIDATES: usize = 200;
pub const TOP_K: usize = 20;
/// The paper's batch, and the largest that it gives for LLM scorers in Figure 9.
pub const BATCH: usize = 128;
pub const LARGEST_LLM_BATCH: usize = 144;
/// Runs of each cell of the variance section.
pub const REPEATS: usize = 3;
/// `--quick`: pools of the costly models.
const QUICK_CANDIDATES: usize = 16;
const QUICK_TOP_K: usize = 4;
/// Pools timed in a selector's cell, which costs milliseconds.
const SELECTOR_QUESTIONS: usize = 20;

/// One cell, and the parts that show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub cell: Cell,
    pub parts: Vec<Part>,
}

/// Where a model stands among those planned: a quick run is thorough with the first ones only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    First,
    FirstOfKind,
    Other,
}

/// How a model's cells are sized.
struct Size {
    candidates: usize,
    questions: usize,
    sweep_questions: usize,
    batch: usize,
}

impl Scope {
    fn size(&self, network: &Network, rank: Rank) -> Size {
        let llm = network.kind == Kind::LlmScorer;
        let asked = |default| self.questions.unwrap_or(default);
        let whole = Size {
            candidates: CANDIDATES,
            questions: asked(if llm { 10 } else { 20 }),
            sweep_questions: if llm { 3 } else { 5 },
            batch: BATCH,
        };
        match (self.quick, rank) {
            (false, _) => whole,
            (true, Rank::First) => Size { questions: asked(1), sweep_questions: 1, ..whole },
            (true, rank) => Size {
                candidates: QUICK_CANDIDATES,
                // Two passes, as 128 of 200 are; or one, which is the full batch's cell as well.
                batch: if rank == Rank::Other { QUICK_CANDIDATES } else { QUICK_CANDIDATES / 2 },
                questions: asked(1),
                sweep_questions: 1,
            },
        }
    }

    /// Batches of Figure 9 and the size of its pools.
    fn sweep(&self, network: &Network) -> (usize, Vec<usize>) {
        let largest = if network.kind == Kind::LlmScorer { LARGEST_LLM_BATCH } else { usize::MAX };
        let candidates = if self.quick { QUICK_CANDIDATES } else { CANDIDATES };
        let mut batches: Vec<usize> =
            self.batches.iter().copied().filter(|&batch| batch <= largest.min(candidates)).collect();
        // One of the larger ones stands for them all in small pools.
        if self.quick && batches.last() != Some(&candidates) {
            batches.push(candidates);
        }
        (candidates, batches)
    }

    /// The cells in the order in which they run: those of one network follow each other, so that it is loaded once.
    pub fn plan(&self, networks: &[Network]) -> Vec<Planned> {
        let mut planned = Plan::default();
        let selector = |candidates, top_k, repeat| Cell {
            variant: Variant::selector(crate::policy::REFERENCE),
            batch: 0,
            candidates,
            top_k,
            questions: SELECTOR_QUESTIONS,
            seconds: None,
            warmup: 1,
            repeat,
        };
        planned.add(selector(CANDIDATES, TOP_K, 0), &[Part::Table12, Part::Table13, Part::Variance]);
        for &candidates in &self.grid.0 {
            for &top_k in &self.grid.1 {
                planned.add(selector(candidates, top_k, 0), &[Part::Table14]);
            }
        }
        for (number, network) in networks.iter().enumerate() {
            let rank = match networks[..number].iter().any(|before| before.kind == network.kind) {
                _ if number == 0 => Rank::First,
                true => Rank::Other,
                false => Rank::FirstOfKind,
            };
            self.plan_network(network, rank, &mut planned);
            // The selector's repetitions stand at the beginning, in the middle and at the end of the run.
            let repeat = REPEATS * (number + 1) / (networks.len() + 1);
            planned.add(selector(CANDIDATES, TOP_K, repeat.min(REPEATS - 1)), &[Part::Variance]);
        }
        for repeat in 1..REPEATS {
            planned.add(selector(CANDIDATES, TOP_K, repeat), &[Part::Variance]);
        }
        planned.cells
    }

    fn plan_network(&self, network: &Network, rank: Rank, planned: &mut Plan) {
        let size = self.size(network, rank);
        let model = &network.model;
        let variants = match network.kind {
            Kind::LlmScorer => [Variant::reranker(model, "packed"), Variant::unshared(model, "packed")],
            _ => [Variant::reranker(model, "packed"), Variant::reranker(model, "candle")],
        };
        // What sharing saves is shown by one LLM scorer in one cell; run whole, they would take the most time of all.
        let brief = self.quick && rank == Rank::Other;
        let count = if brief && network.kind == Kind::LlmScorer { 1 } else { 2 };
        for (number, variant) in variants.into_iter().take(count).enumerate() {
            let cell = |batch: usize, candidates: usize, questions: usize, repeat: usize| Cell {
                variant: variant.clone(),
                batch,
                candidates,
                top_k: if candidates == CANDIDATES { TOP_K } else { QUICK_TOP_K },
                questions,
                seconds: None,
                warmup: self.warmup,
                repeat,
            };
            let unshared = self.quick && variant.unshared;
            if !unshared {
                planned.add(cell(size.batch, size.candidates, size.questions, 0), &[Part::Table12]);
            }
            planned.add(cell(size.candidates, size.candidates, size.questions, 0), &[Part::Table13]);
            // The second variant is the baseline of the first: it stands in the tables alone.
            if number > 0 || brief {
                continue;
            }
            let (candidates, batches) = self.sweep(network);
            for batch in batches {
                planned.add(cell(batch, candidates, size.sweep_questions, 0), &[Part::Figure9]);
            }
            if rank == Rank::First {
                for repeat in 0..REPEATS {
                    planned
                        .add(cell(candidates, candidates, size.sweep_questions, repeat), &[Part::Variance]);
                }
            }
        }
    }
}

#[derive(Default)]
struct Plan {
    cells: Vec<Planned>,
}

impl Plan {
    /// Adds a cell, or the parts to it where it is planned already.
    fn add(&mut self, cell: Cell, parts: &[Part]) {
        match self.cells.iter_mut().find(|planned| planned.cell == cell) {
            Some(planned) => {
                let new = parts.iter().filter(|part| !planned.parts.contains(part));
                let new: Vec<Part> = new.copied().collect();
                planned.parts.extend(new);
            }
            None => self.cells.push(Planned { cell, parts: parts.to_vec() }),
        }
    }
}

/// Judges how long cells take: first from operation counts, then from how the cells before them ran.
#[derive(Debug, Clone)]
pub struct Estimate {
    /// Operations a second of the device's matrix product.
    rate: f64,
    /// Seconds expected and taken, of selectors and of networks: the one says nothing about the other.
    learnt: [(f64, f64); 2],
}

/// Tokens of a pair, and of a prompt's shared and own part, on pools like LoCoMo's.
const PAIR_TOKENS: f64 = 61.0;
const SHARED_TOKENS: f64 = 80.0;
const OWN_TOKENS: f64 = 48.0;
/// Share of the matrix product's rate that whole networks reach.
const NETWORK_SHARE: f64 = 0.75;
/// Cost of padding and of unfused operations in the common implementation.
const COMMON_COST: f64 = 2.0;
/// Seconds a selector's pool takes, generously.
const SELECTOR_SECONDS: f64 = 5e-3;

impl Estimate {
    /// For a device whose matrix product runs at `rate` operations a second.
    pub fn new(rate: f64) -> Self {
        Self { rate, learnt: [(0.0, 0.0); 2] }
    }

    fn seconds(&self, cell: &Cell, networks: &[Network]) -> f64 {
        let pools = cell.questions as f64 + cell.warmup as f64;
        let candidates = cell.candidates as f64;
        let Some(network) = networks.iter().find(|network| network.model == cell.variant.model) else {
            return pools * SELECTOR_SECONDS;
        };
        let tokens = match network.kind {
            Kind::LlmScorer if cell.variant.unshared => candidates * (SHARED_TOKENS + OWN_TOKENS),
            Kind::LlmScorer => SHARED_TOKENS + candidates * OWN_TOKENS,
            _ => candidates * PAIR_TOKENS,
        };
        let cost = if cell.variant.engine == "candle" { COMMON_COST } else { 1.0 };
        pools * cost * 2.0 * network.body_parameters as f64 * tokens / (self.rate * NETWORK_SHARE)
    }

    /// How long `cells` take.
    pub fn of<'a>(&self, cells: impl Iterator<Item = &'a Cell>, networks: &[Network]) -> Duration {
        let corrected = |cell: &Cell| {
            let (expected, taken) = self.learnt[class(cell)];
            self.seconds(cell, networks) * if expected > 0.0 { taken / expected } else { 1.0 }
        };
        Duration::from_secs_f64(cells.map(corrected).sum::<f64>().min(1e9))
    }

    /// Learns that `cell` took `time`.
    pub fn learn(&mut self, cell: &Cell, networks: &[Network], time: Duration) {
        let seconds = self.seconds(cell, networks);
        let (expected, taken) = &mut self.learnt[class(cell)];
        *expected += seconds;
        *taken += time.as_secs_f64();
    }
}

/// 0 for selectors, 1 for networks.
fn class(cell: &Cell) -> usize {
    usize::from(!cell.variant.engine.is_empty())
}

/// A cell's figures, and where they are shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub parts: Vec<Part>,
    pub cell: Cell,
    pub row: Row,
}

/// Everything that a reproduction measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// The command line that gave it.
    pub command: String,
    pub environment: Environment,
    /// `generated` with its seed, or the file's name.
    pub source: String,
    /// Dimension of the embeddings, d.
    pub dimension: Option<usize>,
    /// Whether pools were small and questions few.
    pub quick: bool,
    /// What was left out, and why; a sentence each.
    pub notes: Vec<String>,
    pub networks: Vec<Network>,
    pub findings: Vec<Finding>,
}

impl Reproduction {
    /// The findings of a part, in the order of the plan.
    pub fn part(&self, part: Part) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.parts.contains(&part))
    }

    /// The network of a model.
    pub fn network(&self, model: &str) -> Option<&Network> {
        self.networks.iter().find(|network| network.model == model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks() -> Vec<Network> {
        let network = |model: &str, kind, layers, width, body_parameters| Network {
            model: model.into(),
            kind,
            layers,
            width,
            body_parameters,
        };
        vec![
            network("bge-base", Kind::CrossEncoder, 12, 768, 85_000_000),
            network("bge-v2-m3", Kind::CrossEncoder, 24, 1024, 302_000_000),
            network("qwen3.5-0.8b", Kind::LlmScorer, 24, 1024, 498_000_000),
        ]
    }

    fn scope(quick: bool) -> Scope {
        Scope {
            quick,
            questions: None,
            warmup: 1,
            batches: vec![1, 8, 128, 144, 200],
            grid: (vec![100, 200], vec![10, 20]),
        }
    }

    #[test]
    fn every_cell_is_planned_once_and_networks_are_loaded_once() {
        for quick in [false, true] {
            let plan = scope(quick).plan(&networks());
            for (i, planned) in plan.iter().enumerate() {
                assert!(!planned.parts.is_empty());
                assert!(plan[..i].iter().all(|before| before.cell != planned.cell), "{:?}", planned.cell);
            }
            let mut variants: Vec<&Variant> = plan.iter().map(|planned| &planned.cell.variant).collect();
            variants.retain(|variant| !variant.engine.is_empty());
            variants.dedup();
            assert_eq!(variants.len(), 2 * networks().len());
        }
    }

    #[test]
    fn the_full_plan_is_the_papers() {
        let plan = scope(false).plan(&networks());
        let of = |part: Part| -> Vec<&Cell> {
            plan.iter().filter(|p| p.parts.contains(&part)).map(|p| &p.cell).collect()
        };
        assert!(of(Part::Table12).iter().all(|cell| cell.batch == 128 || cell.batch == 0));
        assert!(of(Part::Table13).iter().all(|cell| cell.batch == 200 || cell.batch == 0));
        assert!(of(Part::Table13).iter().all(|cell| (cell.candidates, cell.top_k) == (200, 20)));
        assert_eq!(of(Part::Table14).len(), 4);
        let qwen = of(Part::Figure9).into_iter().filter(|cell| cell.variant.model == "qwen3.5-0.8b");
        assert_eq!(qwen.map(|cell| cell.batch).collect::<Vec<_>>(), [1, 8, 128, 144]);
        assert_eq!(of(Part::Variance).len(), 2 * REPEATS);
        // The selector's cell of Table 14 is the one of Tables 12 and 13.
        let shared = plan.iter().find(|p| p.parts.contains(&Part::Table12)).unwrap();
        assert!(shared.parts.contains(&Part::Table14));
    }

    #[test]
    fn the_quick_plan_runs_one_model_whole() {
        let plan = scope(true).plan(&networks());
        let tables = |p: &&Planned| p.parts.contains(&Part::Table12) || p.parts.contains(&Part::Table13);
        for planned in plan.iter().filter(tables).filter(|p| p.cell.batch > 0) {
            let expected = if planned.cell.variant.model == "bge-base" { 200 } else { 16 };
            assert_eq!(planned.cell.candidates, expected);
        }
        let sweep: Vec<usize> = plan
            .iter()
            .filter(|p| p.parts.contains(&Part::Figure9) && p.cell.variant.model == "bge-base")
            .map(|p| p.cell.batch)
            .collect();
        assert_eq!(sweep, [1, 8, 16]);
    }

    #[test]
    fn estimates_follow_what_was_learnt() {
        let (networks, plan) = (networks(), scope(false).plan(&networks()));
        let cells = || plan.iter().map(|planned| &planned.cell).filter(|cell| cell.batch > 0);
        let mut estimate = Estimate::new(1e12);
        let before = estimate.of(cells(), &networks);
        let slow = &plan.iter().find(|p| p.cell.variant.model == "bge-base").unwrap().cell;
        let expected = estimate.of(std::iter::once(slow), &networks);
        estimate.learn(slow, &networks, expected * 3);
        let after = estimate.of(cells(), &networks);
        assert!((after.as_secs_f64() / before.as_secs_f64() - 3.0).abs() < 1e-6);
    }
}
