//! The float64 order on 1,540 real pools.

mod pursuit_support;

use half::{bf16, f16};
use pursuit_support::Locomo;
use rerank_bench::pursuit::{Elements, Options, Path, Rows, Scratch, Stop, pursue};

fn run(locomo: &Locomo, memories: Elements<'_>, options: &Options, mut check: impl FnMut(usize, Path)) {
    let mut scratch = Scratch::new();
    for (number, (query, rows, ..)) in locomo.pools.iter().enumerate() {
        let rows = Rows::gathered(memories, locomo.dimension, rows).unwrap();
        let path = pursue(Elements::F32(locomo.query(*query)), &rows, options, &mut scratch).unwrap();
        check(number, path);
    }
}

#[test]
fn every_order_is_the_float64_one() {
    let Some(locomo) = Locomo::read() else { return };
    for budget in [10, 20, 50] {
        let options = Options { budget, ..Options::default() };
        run(&locomo, Elements::F32(&locomo.memories), &options, |number, path| {
            assert_eq!(path.order, locomo.pools[number].2[..budget], "pool {number}, K = {budget}");
        });
    }
}

#[test]
fn every_adaptive_stop_fires_at_the_right_step() {
    let Some(locomo) = Locomo::read() else { return };
    let options = Options { budget: 200, stop: Some(Stop::default()), ..Options::default() };
    run(&locomo, Elements::F32(&locomo.memories), &options, |number, path| {
        assert_eq!(path.order.len(), locomo.pools[number].3, "pool {number}");
    });
}

/// A store kept in half precision is read as what it holds: its order is that of the same values in float32.
#[test]
fn half_precision_stores_have_the_order_of_their_values() {
    let Some(locomo) = Locomo::read() else { return };
    let options = Options { budget: 50, trace: true, ..Options::default() };
    let f16s: Vec<f16> = locomo.memories.iter().map(|&value| f16::from_f32(value)).collect();
    let bf16s: Vec<bf16> = locomo.memories.iter().map(|&value| bf16::from_f32(value)).collect();
    let widened: [Vec<f32>; 2] = [
        f16s.iter().map(|value| value.to_f32()).collect(),
        bf16s.iter().map(|value| value.to_f32()).collect(),
    ];
    for (narrow, wide) in [Elements::F16(&f16s), Elements::Bf16(&bf16s)].into_iter().zip(&widened) {
        let mut paths = Vec::new();
        run(&locomo, Elements::F32(wide), &options, |_, path| paths.push(path));
        run(&locomo, narrow, &options, |number, path| assert_eq!(path, paths[number], "pool {number}"));
    }
}

#[test]
fn every_pick_replays() {
    let Some(locomo) = Locomo::read() else { return };
    let options = Options { budget: 50, trace: true, ..Options::default() };
    run(&locomo, Elements::F32(&locomo.memories), &options, |number, path| {
        if number % 10 == 0 {
            let (query, rows, ..) = &locomo.pools[number];
            let memory = |row: &u32| &locomo.memories[*row as usize * locomo.dimension..][..locomo.dimension];
            let rows: Vec<Vec<f64>> = rows.iter().map(|row| pursuit_support::unit(memory(row))).collect();
            pursuit_support::replay(&pursuit_support::unit(locomo.query(*query)), &rows, &path);
        }
    });
}
