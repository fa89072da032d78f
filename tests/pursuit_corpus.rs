//! Many questions over one store have the answers of one question at a time, whatever is kept between them.

mod pursuit_support;

use half::bf16;
use pursuit_support::{Locomo, SplitMix};
use rerank_bench::pursuit::{Corpus, Elements, Error, Normalize, Options, Question, Rows, Scratch, pursue};

const DIMENSION: usize = 24;

/// A store of clustered vectors with some copies, and questions over random parts of it.
fn store(memories: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix(seed);
    let mut value = move || (random.next() >> 40) as f32 / (1 << 24) as f32 - 0.5;
    let centres: Vec<f32> = (0..6 * DIMENSION).map(|_| value()).collect();
    let mut rows: Vec<f32> = Vec::new();
    for row in 0..memories {
        if row % 11 == 7 {
            rows.extend_from_within((row - 5) * DIMENSION..(row - 4) * DIMENSION);
        } else {
            let centre = &centres[row % 6 * DIMENSION..][..DIMENSION];
            rows.extend(centre.iter().map(|centre| centre + 0.8 * value()).collect::<Vec<_>>());
        }
    }
    rows
}

fn questions(memories: usize, count: usize, seed: u64) -> Vec<(Vec<f32>, Vec<u32>)> {
    let mut random = SplitMix(seed);
    (0..count)
        .map(|_| {
            let query =
                (0..DIMENSION).map(|_| (random.next() >> 40) as f32 / (1 << 24) as f32 - 0.4).collect();
            let mut rows: Vec<u32> = (0..memories as u32).collect();
            for at in 0..memories {
                rows.swap(at, at + random.below((memories - at) as u64) as usize);
            }
            rows.truncate(20 + random.below(100) as usize);
            (query, rows)
        })
        .collect()
}

#[test]
fn kept_similarities_change_no_answer() {
    let memories = store(150, 1);
    let questions = questions(150, 40, 2);
    let options = Options { budget: 12, ..Options::default() };
    let mut scratch = Scratch::new();
    // No cache, room for a few columns (so that they are thrown out all the time), room for all.
    for bytes in [0, 5 * 150 * 4, 1 << 20] {
        let corpus = Corpus::new(Elements::F32(&memories), DIMENSION, Normalize::Yes, bytes).unwrap();
        for _ in 0..2 {
            for (query, rows) in &questions {
                let pool = Rows::gathered(Elements::F32(&memories), DIMENSION, rows).unwrap();
                let alone = pursue(Elements::F32(query), &pool, &options, &mut scratch).unwrap();
                let path = corpus.select(Elements::F32(query), rows, &options, &mut scratch).unwrap();
                assert_eq!(path.order, alone.order);
                assert_eq!(path.optimum, alone.optimum);
                for (score, other) in path.scores.iter().zip(&alone.scores) {
                    assert!((score - other).abs() <= 1e-13);
                }
            }
            assert!(corpus.cached_bytes() <= bytes);
        }
    }
}

#[test]
fn a_store_grows_without_forgetting() {
    let memories = store(150, 3);
    let questions = questions(150, 20, 4);
    let options = Options { budget: 12, ..Options::default() };
    let mut scratch = Scratch::new();
    let first = Elements::F32(&memories[..100 * DIMENSION]);
    let corpus = Corpus::new(first, DIMENSION, Normalize::Yes, 1 << 20).unwrap();
    for (query, rows) in &questions {
        let early: Vec<u32> = rows.iter().copied().filter(|&row| row < 100).collect();
        corpus.select(Elements::F32(query), &early, &options, &mut scratch).unwrap();
    }
    let kept = corpus.cached_bytes();
    let corpus = corpus.grown(Elements::F32(&memories)).unwrap();
    assert_eq!((corpus.len(), corpus.cached_bytes()), (150, kept));
    for (query, rows) in &questions {
        let pool = Rows::gathered(Elements::F32(&memories), DIMENSION, rows).unwrap();
        let alone = pursue(Elements::F32(query), &pool, &options, &mut scratch).unwrap();
        let path = corpus.select(Elements::F32(query), rows, &options, &mut scratch).unwrap();
        assert_eq!(path.order, alone.order);
    }
    assert!(corpus.grown(first).is_err(), "a store does not shrink");
}

#[test]
fn many_threads_give_the_answers_of_one_and_faults_stay_apart() {
    let mut memories = store(150, 5);
    memories[31 * DIMENSION] = f32::NAN;
    memories[47 * DIMENSION..48 * DIMENSION].fill(0.0);
    let questions = questions(150, 64, 6);
    let options = Options { budget: 12, ..Options::default() };
    let corpus = Corpus::new(Elements::F32(&memories), DIMENSION, Normalize::Yes, 1 << 20).unwrap();
    let asked: Vec<Question<'_>> =
        questions.iter().map(|(query, rows)| Question { query: Elements::F32(query), rows }).collect();
    let threads = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let answers = threads.install(|| corpus.select_many(&asked, &options));
    let mut scratch = Scratch::new();
    let mut refused = 0;
    for ((query, rows), answer) in questions.iter().zip(answers) {
        match answer {
            Ok(path) => {
                let pool = Rows::gathered(Elements::F32(&memories), DIMENSION, rows).unwrap();
                let alone = pursue(Elements::F32(query), &pool, &options, &mut scratch).unwrap();
                assert_eq!(path.order, alone.order);
            }
            Err(error) => {
                let bad = rows.iter().position(|&row| row == 31 || row == 47);
                let expected = match bad {
                    Some(row) if rows[row] == 31 => Error::NotFinite { row: Some(row) },
                    _ => Error::ZeroVector { row: bad },
                };
                assert_eq!(error, expected);
                refused += 1;
            }
        }
    }
    assert!(refused > 10);
    let outside = corpus.select(Elements::F32(&questions[0].0), &[3, 150], &options, &mut scratch);
    assert_eq!(outside, Err(Error::RowOutOfStore { row: 1, index: 150, rows: 150 }));
}

#[test]
fn locomo_orders_are_unchanged() {
    let Some(locomo) = Locomo::read() else { return };
    let options = Options { budget: 50, ..Options::default() };
    let check = |memories: Elements<'_>, expected: &dyn Fn(usize) -> Vec<u32>| {
        let corpus = Corpus::new(memories, locomo.dimension, Normalize::Yes, 64 << 20).unwrap();
        let questions: Vec<Question<'_>> = locomo
            .pools
            .iter()
            .map(|(query, rows, ..)| Question { query: Elements::F32(locomo.query(*query)), rows })
            .collect();
        for _ in 0..2 {
            for (number, path) in corpus.select_many(&questions, &options).into_iter().enumerate() {
                assert_eq!(path.unwrap().order, expected(number), "pool {number}");
            }
        }
    };
    check(Elements::F32(&locomo.memories), &|number| locomo.pools[number].2.clone());
    let narrow: Vec<bf16> = locomo.memories.iter().map(|&value| bf16::from_f32(value)).collect();
    check(Elements::Bf16(&narrow), &|number| {
        let (query, rows, ..) = &locomo.pools[number];
        let rows = Rows::gathered(Elements::Bf16(&narrow), locomo.dimension, rows).unwrap();
        pursue(Elements::F32(locomo.query(*query)), &rows, &options, &mut Scratch::new()).unwrap().order
    });
}
