//! The plain command: benchmark policies on a workload, MemPursuit beside each of them.

use std::time::Duration;

use clap::Args;

use super::flags::{ExportFlags, MachineFlags, RerankerFlags, SelectorFlags, Weights, positive};
use super::{input, progress};
use crate::error::{Error, Result};
use crate::measure::clock::WallClock;
use crate::measure::environment::Environment;
use crate::measure::interleave::{Questions, Rules, Times, measure};
use crate::measure::results::{Results, Row, Tokens, Workload};
use crate::policy::{self, Choice, Settings};
use crate::pool::Pool;
use crate::pool::synthetic::Synthetic;
use crate::report::{Markdown, Terminal};

/// The demonstration's opponent.
const DEMO_MODEL: &str = "bge-base";
/// Pools timed where nothing else is said.
const QUESTIONS: usize = 20;
/// Pool size where nothing else is said.
const CANDIDATES: usize = 200;
/// The demonstration times as many questions as fit into this, within bounds.
const DEMO: Questions = Questions::Fit { time: Duration::from_secs(100), least: 1, most: QUESTIONS };

#[derive(Debug, Args)]
pub struct Flags {
    /// Policies, separated by commas: mempursuit, mmr, cosine, hybrid, original, bge-base, bge-large, bge-v2-m3,
    /// qwen3.5-0.8b, qwen3.5-2b, qwen3.5-4b, a model folder, or a hub id org/name[@revision] [default: bge-base with random weights]
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',')]
    model: Vec<String>,
    /// Pools: a JSON Lines file (also .gz, .zst), - for standard input, or locomo:PATH [default: generated]
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Budget K
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = positive)]
    top_k: usize,
    /// Size of generated pools; pools from files are cut to it [default: 200]
    #[arg(long, value_name = "P", value_parser = positive)]
    candidates: Option<usize>,
    /// Pools timed [default: 20; the demonstration chooses]
    #[arg(long, value_name = "N", value_parser = positive)]
    questions: Option<usize>,
    /// Untimed passes of full shape before a policy is timed; 0 is one small pass [default: 1; the demonstration 0]
    #[arg(long, value_name = "N")]
    warmup: Option<usize>,
    /// Seed of generated pools and random weights
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    exports: ExportFlags,
    #[command(flatten)]
    selector: SelectorFlags,
    #[command(flatten)]
    reranker: RerankerFlags,
    #[command(flatten)]
    machine: MachineFlags,
}

impl Flags {
    /// True where no policy was named: the demonstration's model and bounds hold.
    fn demo(&self) -> bool {
        self.model.is_empty()
    }

    fn rules(&self) -> Rules {
        let questions = match self.questions {
            Some(count) => Questions::Fixed(count),
            None if self.demo() => DEMO,
            None => Questions::Fixed(QUESTIONS),
        };
        Rules {
            top_k: self.top_k,
            warmup: self.warmup.unwrap_or(usize::from(!self.demo())),
            warm: false,
            questions,
        }
    }

    fn settings(&mut self) -> Result<Settings> {
        // No cache: in a benchmark each pool is met cold, as in the paper.
        let mut settings = Settings::default();
        if self.demo() {
            self.reranker.weights.get_or_insert(Weights::Random);
        }
        self.selector.apply(&mut settings);
        self.reranker.apply(&mut settings, &self.machine, self.seed)?;
        Ok(settings)
    }
}

/// Runs the command.
pub fn run(mut flags: Flags) -> Result<()> {
    let names = if flags.demo() { vec![DEMO_MODEL.to_string()] } else { flags.model.clone() };
    let mut others: Vec<Choice> = Vec::new();
    for name in &names {
        let choice = policy::resolve(name)?;
        if name != policy::REFERENCE && !others.contains(&choice) {
            others.push(choice);
        }
    }
    flags.exports.check()?;
    let threads = super::use_threads(flags.machine.threads)?;
    let settings = flags.settings()?;
    let rules = flags.rules();
    if flags.demo() && flags.input.is_none() {
        progress::say(&format!(
            "Demonstration: MemPursuit against {DEMO_MODEL} with random weights on generated pools."
        ));
    }
    let (pools, source) = workload(&flags, rules.questions.most())?;
    let (rows, failure, tokens) = cells(others, &settings, &pools, &rules)?;

    let results = Results {
        command: super::command_line(),
        environment: Environment::detect(threads).with_gpu(settings.device),
        workload: Workload {
            source,
            questions: rows.iter().map(|row| row.times_ms.len()).filter(|&n| n > 0).min().unwrap_or(0),
            candidates: pools.iter().map(Pool::len).max().unwrap_or(0),
            top_k: flags.top_k,
            dimension: pools.iter().find_map(Pool::dimension),
            tokens,
        },
        rows,
    };
    flags.exports.write(&results, &Terminal, &Markdown)?;
    failure.map_or(Ok(()), Err)
}

/// The pools to time, and what the workload is called.
fn workload(flags: &Flags, most: usize) -> Result<(Vec<Pool>, String)> {
    let candidates = flags.candidates.unwrap_or(CANDIDATES);
    let Some(input) = &flags.input else {
        progress::say(&format!("Generating pools of {candidates} candidates (seed {}).", flags.seed));
        let generator = Synthetic { candidates, seed: flags.seed, ..Synthetic::default() };
        return Ok((generator.pools().take(most).collect(), format!("generated pools, seed {}", flags.seed)));
    };
    let mut source = input::name(input);
    let mut pools = input::open(input)?.take(most).collect::<Result<Vec<Pool>>>()?;
    if pools.is_empty() {
        return Err(Error::file(input, "holds no pools: there is nothing to time"));
    }
    let longer = pools.iter().filter(|pool| pool.len() > candidates).count();
    if longer > 0 {
        source += &format!(" ({longer} of {} pools cut to their first {candidates} candidates)", pools.len());
    }
    pools.iter_mut().for_each(|pool| pool.truncate(candidates));
    Ok((pools, source))
}

/// Times each policy beside MemPursuit: the rows, the first failure, and the tokens of the pairs.
///
/// A policy that fails leaves a row that says so, and the others go on; where nothing at all could be
/// measured, the failure is the answer.
fn cells(
    others: Vec<Choice>,
    settings: &Settings,
    pools: &[Pool],
    rules: &Rules,
) -> Result<(Vec<Row>, Option<Error>, Option<Tokens>)> {
    let clock = WallClock::new();
    let reference = policy::open(policy::resolve(policy::REFERENCE)?, settings, &progress::say)?;
    let (mut base, mut rows, mut failure, mut tokens) = (None::<Times>, Vec::new(), None, None);
    if others.is_empty() {
        let mut bar = progress::Cell::new(reference.name());
        base = Some(measure(&clock, reference.as_ref(), None, pools, rules, &mut |step| bar.show(step))?.0);
    }
    for choice in others {
        let name = choice.name().to_string();
        let policy = match policy::open(choice, settings, &progress::say) {
            Ok(policy) => policy,
            Err(error) => {
                failure = failure.or(Some(error));
                continue;
            }
        };
        let mut bar = progress::Cell::new(&name);
        let other = Some(policy.as_ref());
        match measure(&clock, reference.as_ref(), other, pools, rules, &mut |step| bar.show(step)) {
            Ok((mempursuit, times)) => {
                tokens = tokens.or_else(|| Tokens::of(&times.work.token_lengths));
                rows.push(Row::new(&name, policy.describe(), &times, Some(&mempursuit.milliseconds)));
                match &mut base {
                    Some(base) => base.append(mempursuit),
                    None => base = Some(mempursuit),
                }
            }
            Err(error) => {
                rows.push(Row::failed(&name, policy.describe(), &error));
                failure = failure.or(Some(error));
            }
        }
    }
    let Some(base) = base else {
        return Err(failure.unwrap_or_else(|| Error::Usage("no policy to measure".into())));
    };
    rows.insert(0, Row::new(reference.name(), reference.describe(), &base, None));
    Ok((rows, failure, tokens))
}
