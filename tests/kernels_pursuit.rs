//! The GPU selector through the emulator: the kernel and all host code around it, against the CPU selector.

mod pursuit_support;

use half::{bf16, f16};
use pursuit_support::{Case, Locomo, SplitMix, close, compare_with_golden, golden, replay};
use rerank_bench::pursuit::cuda::emulator::ThreadOrder;
use rerank_bench::pursuit::cuda::{Candidates, Gpu, Job, MAX_BUDGET, MAX_CANDIDATES, Query, Refusal};
use rerank_bench::pursuit::{Elements, Error, Normalize, Options, Path, Rows, Scratch, Step, Stop, pursue};

const ORDERS: [ThreadOrder; 4] =
    [ThreadOrder::Ascending, ThreadOrder::Descending, ThreadOrder::Shuffled(7), ThreadOrder::WarpByWarp];

fn on_gpu(gpu: &Gpu, query: Elements<'_>, rows: Elements<'_>, options: &Options) -> Result<Path, Refusal> {
    let dimension = query.len();
    let memories = gpu.upload(rows, dimension).unwrap();
    let candidates = Candidates::Span { first: 0, count: memories.rows() };
    let job = Job { memories: &memories, candidates, query: Query::Given(query) };
    gpu.pursue(&[job], options).unwrap().paths.remove(0)
}

#[test]
fn goldens_in_every_thread_order() {
    for order in ORDERS {
        let gpu = Gpu::emulated(order);
        for case in golden() {
            let options = case.options();
            let matrix = case.matrix();
            let path = on_gpu(&gpu, Elements::F32(&case.q), Elements::F32(&matrix), &options).unwrap();
            compare_with_golden(&case, &path);
            let plain = Options { trace: false, ..options };
            let plain = on_gpu(&gpu, Elements::F32(&case.q), Elements::F32(&matrix), &plain).unwrap();
            assert_eq!(
                (&plain.order, &plain.scores, &plain.weights),
                (&path.order, &path.scores, &path.weights)
            );
            let stopping = Options { stop: Some(Stop::default()), ..options };
            let stopped = on_gpu(&gpu, Elements::F32(&case.q), Elements::F32(&matrix), &stopping).unwrap();
            assert_eq!(stopped.order, case.expected.order[..case.expected.k_adaptive], "{}", case.name);
        }
    }
}

/// Rows `[count, dimension]` around a few topics, and a query among them.
struct Instance {
    dimension: usize,
    query: Vec<f32>,
    rows: Vec<f32>,
}

impl Instance {
    fn new(count: usize, dimension: usize, seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let mut noise = || (random.next() >> 40) as f32 / (1 << 23) as f32 - 1.0;
        let topics: Vec<f32> = (0..6 * dimension).map(|_| noise()).collect();
        let topic = |k: usize| topics[(k % 6) * dimension..][..dimension].to_vec();
        let query = (0..dimension).map(|at| (0..4).map(|k| topic(k)[at]).sum::<f32>()).collect();
        let rows = (0..count)
            .flat_map(|row| topic(row).into_iter().map(|value| value + 1.5 * noise()).collect::<Vec<_>>());
        let rows = rows.collect();
        Self { dimension, query, rows }
    }

    /// Vectors in general position, and their mean as the query: taken as they are, every weight stays positive.
    fn broad(count: usize, dimension: usize, seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let rows: Vec<f32> =
            (0..count * dimension).map(|_| (random.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect();
        let mean = |at| rows.iter().skip(at).step_by(dimension).sum::<f32>() / count as f32;
        let query = (0..dimension).map(mean).collect();
        Self { dimension, query, rows }
    }

    fn count(&self) -> usize {
        self.rows.len() / self.dimension
    }
}

/// The three stores that hold an instance, each with its own rounding.
#[derive(Clone, Copy, Debug)]
enum Kind {
    F32,
    F16,
    Bf16,
}

const KINDS: [Kind; 3] = [Kind::F32, Kind::F16, Kind::Bf16];

impl Kind {
    fn with<T>(self, values: &[f32], then: impl FnOnce(Elements<'_>) -> T) -> T {
        match self {
            Kind::F32 => then(Elements::F32(values)),
            Kind::F16 => {
                then(Elements::F16(&values.iter().map(|&value| f16::from_f32(value)).collect::<Vec<_>>()))
            }
            Kind::Bf16 => {
                then(Elements::Bf16(&values.iter().map(|&value| bf16::from_f32(value)).collect::<Vec<_>>()))
            }
        }
    }

    /// The values as this kind stores them.
    fn stored(self, values: &[f32]) -> Vec<f64> {
        values
            .iter()
            .map(|&value| match self {
                Kind::F32 => f64::from(value),
                Kind::F16 => f16::from_f32(value).to_f64(),
                Kind::Bf16 => bf16::from_f32(value).to_f64(),
            })
            .collect()
    }
}

fn traced(budget: usize) -> Options {
    Options { budget, trace: true, ..Options::default() }
}

fn on_cpu(query: Elements<'_>, rows: Elements<'_>, options: &Options) -> Result<Path, Error> {
    pursue(query, &Rows::dense(rows, query.len()).unwrap(), options, &mut Scratch::new())
}

/// `copies`: weights of coinciding memories are only as good as λ against the rounding of float64.
fn agree(name: &str, gpu: &Path, cpu: &Path, copies: bool) {
    assert_eq!(gpu.order, cpu.order, "{name}");
    assert_eq!((gpu.optimum, gpu.stopped), (cpu.optimum, cpu.stopped), "{name}");
    close(name, "score", &gpu.scores, &cpu.scores, 1e-12);
    close(name, "weights", &gpu.weights, &cpu.weights, if copies { 1e-5 } else { 1e-9 });
    assert_eq!(gpu.trace.len(), cpu.trace.len(), "{name}");
    for (of, what) in [
        ((|step| step.residual) as fn(&Step) -> f64, "residual"),
        (|step| step.objective, "objective"),
        (|step| step.reduction, "reduction"),
        (|step| step.nu, "nu"),
        (|step| step.certificate, "certificate"),
    ] {
        let column = |path: &Path| path.trace.iter().map(of).collect::<Vec<_>>();
        close(name, what, &column(gpu), &column(cpu), 1e-12);
    }
}

/// Runs an instance in every thread order; all answers must be the same bits, agree with the CPU, and replay.
fn check(name: &str, instance: &Instance, kind: Kind, options: &Options) {
    let Instance { dimension, query, rows } = instance;
    let paths = kind.with(query, |query| {
        kind.with(rows, |rows| {
            let cpu = on_cpu(query, rows, options).unwrap();
            let gpu = ORDERS.map(|order| on_gpu(&Gpu::emulated(order), query, rows, options).unwrap());
            agree(name, &gpu[0], &cpu, *dimension < 3 || name.contains("ridge"));
            gpu
        })
    });
    assert_eq!(paths[0], paths[1], "{name}: descending");
    assert_eq!(paths[0], paths[2], "{name}: shuffled");
    assert_eq!(paths[0], paths[3], "{name}: warp by warp");
    let meant = |row: &[f64]| {
        let norm = match options.normalize {
            Normalize::Yes => row.iter().map(|value| value * value).sum::<f64>().sqrt(),
            Normalize::No => 1.0,
        };
        row.iter().map(|value| value / norm).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<f64>> = kind.stored(rows).chunks(*dimension).map(meant).collect();
    if options.trace {
        replay(&meant(&kind.stored(query)), &rows, &paths[0]);
    }
}

/// A warp reads 4 rows side by side, a block 32, a thread every 256th; a warp's sweep along a row is 128 float32 or 256
/// half-width elements, and rows are laid out in steps of 8.
#[test]
fn sizes_on_both_sides_of_every_edge() {
    for count in [1, 2, 3, 4, 5, 31, 32, 33, 35, 64, 65, 255, 256, 257] {
        for kind in KINDS {
            let instance = Instance::new(count, 24, 100 + count as u64);
            check(&format!("{kind:?}, {count} candidates"), &instance, kind, &traced(12));
        }
    }
    for dimension in [1, 2, 7, 8, 9, 120, 127, 128, 129, 136, 248, 256, 257, 512, 513] {
        for kind in KINDS {
            let instance = Instance::new(37, dimension, 200 + dimension as u64);
            check(&format!("{kind:?}, {dimension} dimensions"), &instance, kind, &traced(10));
        }
    }
}

/// Up to 32 steps the refit's matrices lie in shared memory, beyond in global memory; a lane has one, two, three or
/// four of the variables.
#[test]
fn budgets_on_both_sides_of_every_edge() {
    let instance = Instance::broad(140, 200, 5);
    let options = |budget| Options { normalize: Normalize::No, ..traced(budget) };
    for budget in [1, 2, 31, 32, 33, 63, 65, 97, MAX_BUDGET] {
        check(&format!("{budget} steps"), &instance, Kind::F32, &options(budget));
    }
    let gpu = Gpu::emulated(ThreadOrder::Ascending);
    let (query, rows) = (Elements::F32(&instance.query), Elements::F32(&instance.rows));
    let path = on_gpu(&gpu, query, rows, &options(MAX_BUDGET)).unwrap();
    let support = path.weights.iter().filter(|&&weight| weight > 0.0).count();
    assert!(support > 96, "only {support} weights: the case is too easy for what it is to show");
}

#[test]
fn the_largest_pool() {
    let instance = Instance::new(MAX_CANDIDATES, 72, 9);
    check("1,024 candidates", &instance, Kind::Bf16, &Options { budget: MAX_BUDGET, ..Options::default() });
}

/// Long vectors leave shared memory for fewer columns a pass, and in the end for none.
#[test]
fn long_vectors() {
    for dimension in [8_000, 12_000, 20_000] {
        let instance = Instance::new(20, dimension, 3);
        check(&format!("{dimension} dimensions"), &instance, Kind::F16, &traced(6));
    }
    let instance = Instance::new(2, 30_000, 3);
    let gpu = Gpu::emulated(ThreadOrder::Ascending);
    let refusal =
        on_gpu(&gpu, Elements::F32(&instance.query), Elements::F32(&instance.rows), &traced(2)).unwrap_err();
    assert_eq!(refusal, Refusal::TooLong { dimension: 30_000 });
}

/// Rows so long or short that float32 products of them overflow or vanish, among ordinary ones.
#[test]
fn norms_far_from_one() {
    let mut instance = Instance::new(40, 50, 21);
    for (row, values) in instance.rows.chunks_mut(50).enumerate() {
        let factor = [1.0, 1e30, 1e-30, 1e-41, 1e3][row % 5];
        values.iter_mut().for_each(|value| *value *= factor);
    }
    check("normalised", &instance, Kind::F32, &traced(20));
    instance.query.iter_mut().for_each(|value| *value *= 1e33);
    check("normalised, long query", &instance, Kind::F32, &traced(20));
}

#[test]
fn vectors_taken_as_they_are() {
    let mut instance = Instance::new(40, 50, 22);
    for (row, values) in instance.rows.chunks_mut(50).enumerate() {
        values.iter_mut().for_each(|value| *value *= 0.02 + 0.01 * (row % 7) as f32);
    }
    instance.query.iter_mut().for_each(|value| *value *= 0.1);
    check("as they are", &instance, Kind::F32, &Options { normalize: Normalize::No, ..traced(20) });
}

/// Copies, with and without a ridge: with none the refit is semidefinite.
#[test]
fn copies_and_no_ridge() {
    let mut instance = Instance::new(30, 20, 23);
    let copies: Vec<f32> = instance.rows[..20 * 12].to_vec();
    instance.rows.extend(copies);
    for ridge in [0.0, 1e-10, 1e-2] {
        check(&format!("ridge {ridge}"), &instance, Kind::F32, &Options { ridge, ..traced(42) });
    }
}

#[test]
fn the_adaptive_stop() {
    for (seed, patience) in [(31, 1), (32, 2), (33, 3)] {
        let stop = Some(Stop { tolerance: 1e-3, patience });
        let instance = Instance::new(60, 16, seed);
        check("stop", &instance, Kind::F32, &Options { stop, ..traced(60) });
        check("stop without trace", &instance, Kind::F32, &Options { stop, trace: false, ..traced(60) });
    }
}

/// Pools of all sizes over two shared stores and an own one, good and bad: each answer is the one that the pool gets
/// alone.
#[test]
fn many_pools_in_one_batch() {
    let (wide, narrow) = (Instance::new(300, 40, 41), Instance::new(90, 24, 42));
    let halves: Vec<bf16> = narrow.rows.iter().map(|&value| bf16::from_f32(value)).collect();
    let mut damaged = wide.rows.clone();
    damaged[40 * 7..40 * 8].fill(0.0);
    damaged[40 * 9 + 3] = f32::NAN;
    damaged[40 * 11 + 5] = f32::INFINITY;
    let mut random = SplitMix(43);
    let indices: Vec<Vec<u32>> =
        (0..40).map(|pool| (0..pool * 3).map(|_| 12 + random.below(288) as u32).collect()).collect();
    let queries: Vec<f32> = (0..40 * 40).map(|k| wide.rows[(k * 7 + 480) % wide.rows.len()]).collect();
    let options = Options { budget: 9, ..Options::default() };
    for order in ORDERS {
        let gpu = Gpu::emulated(order);
        let store = gpu.upload(Elements::F32(&damaged), 40).unwrap();
        let other = gpu.upload(Elements::Bf16(&halves), 24).unwrap();
        let asked = gpu.upload_queries(Elements::F32(&queries), 40).unwrap();
        let mut jobs: Vec<Job<'_>> = indices
            .iter()
            .enumerate()
            .map(|(row, index)| Job {
                memories: &store,
                candidates: Candidates::Rows(index),
                query: Query::Resident(&asked, row),
            })
            .collect();
        let zeros = [0.0; 40];
        let bad = [vec![20, 7, 9], vec![20, 9], vec![30, 11, 7], vec![300]];
        for index in &bad {
            let candidates = Candidates::Rows(index);
            jobs.insert(5, Job { memories: &store, candidates, query: Query::Resident(&asked, 1) });
        }
        let span = Candidates::Span { first: 12, count: 30 };
        jobs.push(Job { memories: &store, candidates: span, query: Query::Given(Elements::F32(&zeros)) });
        jobs.push(Job {
            memories: &store,
            candidates: span,
            query: Query::Given(Elements::F32(&zeros[..39])),
        });
        jobs.push(Job { memories: &store, candidates: span, query: Query::Resident(&asked, 40) });
        let span = Candidates::Span { first: 2, count: 80 };
        jobs.push(Job {
            memories: &other,
            candidates: span,
            query: Query::Given(Elements::F32(&narrow.query)),
        });
        let batch = gpu.pursue(&jobs, &options).unwrap();
        assert_eq!(batch.work.launches, 2);
        assert_eq!(batch.paths.len(), jobs.len());
        let fault = |at: usize| batch.paths[at].as_ref().unwrap_err();
        assert_eq!(fault(5), &Error::RowOutOfStore { row: 0, index: 300, rows: 300 }.into());
        assert_eq!(fault(6), &Error::NotFinite { row: Some(1) }.into());
        assert_eq!(fault(7), &Error::NotFinite { row: Some(1) }.into());
        assert_eq!(fault(8), &Error::ZeroVector { row: Some(1) }.into());
        assert_eq!(fault(44), &Error::ZeroVector { row: None }.into());
        assert_eq!(fault(45), &Error::Dimension { query: 39, candidates: 40 }.into());
        assert_eq!(fault(46), &Refusal::NoSuchQuery { row: 40, rows: 40 });
        for (job, path) in jobs.iter().zip(&batch.paths) {
            assert_eq!(&gpu.pursue(&[*job], &options).unwrap().paths[0], path);
        }
        let good = (0..5).chain(9..44);
        for ((row, index), at) in indices.iter().enumerate().zip(good) {
            let query = Elements::F32(&queries[40 * row..][..40]);
            let rows = Rows::gathered(Elements::F32(&damaged), 40, index).unwrap();
            let cpu = pursue(query, &rows, &options, &mut Scratch::new()).unwrap();
            agree(&format!("pool {row}"), batch.paths[at].as_ref().unwrap(), &cpu, true); // rows drawn twice
        }
        let cpu =
            on_cpu(Elements::F32(&narrow.query), Elements::Bf16(&halves[48..][..80 * 24]), &options).unwrap();
        agree("own store", batch.paths[47].as_ref().unwrap(), &cpu, false);
    }
}

#[test]
fn what_is_too_large_is_refused_with_the_way_out() {
    let gpu = Gpu::emulated(ThreadOrder::Ascending);
    let instance = Instance::new(MAX_CANDIDATES + 1, 8, 51);
    assert_eq!(instance.count(), MAX_CANDIDATES + 1);
    let refusal =
        on_gpu(&gpu, Elements::F32(&instance.query), Elements::F32(&instance.rows), &traced(2)).unwrap_err();
    assert_eq!(refusal, Refusal::TooManyCandidates { count: MAX_CANDIDATES + 1 });
    let fault = gpu.pursue(&[], &traced(MAX_BUDGET + 1)).unwrap_err();
    assert_eq!(fault.exit_code(), 2);
    assert!(fault.to_string().contains("--model mempursuit"), "{fault}");
    let nothing = gpu.pursue(&[], &traced(0)).unwrap();
    assert!(nothing.paths.is_empty() && nothing.work.launches == 0);
}

/// Real pools, 77 of the 1,540: the first 50 picks of each.
#[test]
fn locomo_orders() {
    let Some(locomo) = Locomo::read() else { return };
    let gpu = Gpu::emulated(ThreadOrder::Ascending);
    let memories = gpu.upload(Elements::F32(&locomo.memories), locomo.dimension).unwrap();
    let queries = gpu.upload_queries(Elements::F32(&locomo.queries), locomo.dimension).unwrap();
    let pools: Vec<_> = locomo.pools.iter().step_by(20).collect();
    let jobs: Vec<Job<'_>> = pools
        .iter()
        .map(|(query, rows, ..)| Job {
            memories: &memories,
            candidates: Candidates::Rows(rows),
            query: Query::Resident(&queries, *query),
        })
        .collect();
    let batch = gpu.pursue(&jobs, &Options { budget: 50, ..Options::default() }).unwrap();
    for (pool, path) in pools.iter().zip(&batch.paths) {
        assert_eq!(path.as_ref().unwrap().order, pool.2[..50]);
    }
    println!("{} pools: {} passes, {} scores settled", pools.len(), batch.work.passes, batch.work.settled);
}

/// The scan reads the pool once for the query and its first candidates, then once for every few picks: with columns of
/// the likely next picks a pool takes far fewer reads than it has steps.
#[test]
fn likely_picks_save_reads_of_the_pool() {
    let cases: Vec<Case> = golden().into_iter().filter(|case| case.candidates == 200).collect();
    let gpu = Gpu::emulated(ThreadOrder::Ascending);
    for case in &cases {
        let memories = gpu.upload(Elements::F32(&case.matrix()), case.d).unwrap();
        let candidates = Candidates::Span { first: 0, count: case.candidates };
        let job = Job { memories: &memories, candidates, query: Query::Given(Elements::F32(&case.q)) };
        let batch = gpu.pursue(&[job], &Options { budget: case.budget, ..Options::default() }).unwrap();
        println!("{}: {} reads, {} scores settled", case.name, batch.work.passes, batch.work.settled);
        assert!(batch.work.passes <= case.budget / 2, "{}: {} reads", case.name, batch.work.passes);
        assert!(batch.work.settled < 3 * case.budget, "{}: {} settled", case.name, batch.work.settled);
    }
}

#[test]
fn the_self_test_passes() {
    for check in Gpu::emulated(ThreadOrder::Shuffled(3)).self_test().unwrap() {
        assert!(check.passed(), "{check:?}");
    }
}
