//! What holds for every pool file: what is written is read back, and nothing makes a reader panic.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Cursor, Write};

use proptest::prelude::*;
use rerank_bench::pool::jsonl::Reader;
use rerank_bench::pool::{Candidate, Pool, Store, Vectors, locomo};
use serde_json::{Value, json};

/// A pool as it should come out, with vectors or without.
#[derive(Debug, Clone)]
struct Expected {
    id: Option<String>,
    query: String,
    candidates: Vec<Candidate>,
    gold: BTreeSet<String>,
    category: Option<String>,
    /// Query and rows, `[dimension]` and `[P, dimension]`.
    vectors: Option<(Vec<f32>, Vec<f32>)>,
}

fn finite() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |number| number.is_finite())
}

fn candidate() -> impl Strategy<Value = Candidate> {
    let optional = || proptest::option::of(any::<String>());
    (any::<String>(), optional(), optional()).prop_map(|(text, timestamp, session)| Candidate {
        id: None,
        text: Some(text),
        timestamp,
        session,
    })
}

fn pool() -> impl Strategy<Value = Expected> {
    (0usize..6, 1usize..5).prop_flat_map(|(count, dimension)| {
        let vectors = (
            proptest::collection::vec(finite(), dimension),
            proptest::collection::vec(finite(), count * dimension),
        );
        (
            proptest::option::of(any::<String>()),
            any::<String>(),
            proptest::collection::vec(candidate(), count),
            proptest::collection::btree_set(any::<String>(), count),
            proptest::collection::btree_set(any::<String>(), 0..3),
            proptest::option::of("[^\"]{0,5}"),
            proptest::option::of(vectors),
        )
            .prop_map(|(id, query, mut candidates, ids, gold, category, vectors)| {
                for (candidate, id) in candidates.iter_mut().zip(ids) {
                    candidate.id = Some(id);
                }
                Expected { id, query, candidates, gold, category, vectors }
            })
    })
}

/// One line, its fields in the order that the map has: by name.
fn line(pool: &Expected) -> String {
    let dimension = pool.vectors.as_ref().map_or(1, |(query, _)| query.len());
    let rows = pool.vectors.as_ref().map(|(_, rows)| rows.chunks(dimension));
    let mut candidates: Vec<Value> = pool
        .candidates
        .iter()
        .map(
            |one| json!({"id": one.id, "text": one.text, "timestamp": one.timestamp, "session": one.session}),
        )
        .collect();
    for (candidate, row) in candidates.iter_mut().zip(rows.into_iter().flatten()) {
        candidate["embedding"] = row.iter().map(number).collect();
    }
    let mut value = json!({
        "id": pool.id, "query": pool.query, "candidates": candidates, "gold": pool.gold, "category": pool.category,
    });
    if let Some((query, _)) = &pool.vectors {
        value["query_embedding"] = query.iter().map(number).collect();
    }
    value.to_string()
}

/// The shortest decimal of an f32, not that of the f64 it widens to.
fn number(number: &f32) -> Value {
    serde_json::from_str(&serde_json::to_string(number).unwrap()).unwrap()
}

fn bits(vector: &[f32]) -> Vec<u32> {
    vector.iter().map(|number| number.to_bits()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn read(bytes: Vec<u8>) -> Vec<rerank_bench::Result<Pool>> {
    match Reader::from_read(Cursor::new(bytes), "pools", "no such folder") {
        Ok(reader) => reader.collect(),
        Err(error) => vec![Err(error)],
    }
}

fn safetensors() -> Vec<u8> {
    let header = json!({
        "memories": {"dtype": "F16", "shape": [3, 2], "data_offsets": [0, 12]},
        "queries": {"dtype": "F32", "shape": [1, 2], "data_offsets": [12, 20]},
    })
    .to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0x3c; 20]].concat()
}

fn conversation() -> Vec<u8> {
    let turns = json!([{"speaker": "A", "dia_id": "D1:1", "text": "x", "blip_caption": "y"}]);
    let question = json!([{"question": "q", "category": 1, "evidence": ["D1:1"]}]);
    json!({"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns, "qa": question})
        .to_string()
        .into_bytes()
}

fn zipped(text: &[u8]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("1.json", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(text).unwrap();
    archive.finish().unwrap().into_inner()
}

/// Damage: bytes overwritten, and the end cut off.
fn damaged(
    mut bytes: Vec<u8>,
    writes: &[(prop::sample::Index, u8)],
    cut: Option<prop::sample::Index>,
) -> Vec<u8> {
    for (at, byte) in writes {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len()));
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_written_is_read(pools in proptest::collection::vec(pool(), 0..5), crlf: bool, form in 0..3) {
        let end = if crlf { "\r\n" } else { "\n" };
        let text: String = pools.iter().map(|pool| line(pool) + end).collect();
        let bytes = match form {
            0 => text.into_bytes(),
            1 => gzip(text.as_bytes()),
            _ => zstd(text.as_bytes()),
        };
        let found = read(bytes);
        prop_assert_eq!(found.len(), pools.len());
        for (index, (found, pool)) in found.into_iter().zip(&pools).enumerate() {
            let found = found.unwrap();
            let id = pool.id.clone().unwrap_or_else(|| (index + 1).to_string());
            prop_assert_eq!((&found.id, found.query.as_ref()), (&id, Some(&pool.query)));
            prop_assert_eq!((&found.category, BTreeSet::from_iter(found.gold)), (&pool.category, pool.gold.clone()));
            let candidates: Vec<Candidate> = found.candidates.iter().map(|one| (**one).clone()).collect();
            prop_assert_eq!(&candidates, &pool.candidates);
            match (&found.vectors, &pool.vectors) {
                (Vectors::None, None) => {}
                (Vectors::Inline { query, rows, dimension }, Some((expected_query, expected_rows))) => {
                    prop_assert_eq!(*dimension, expected_query.len());
                    prop_assert_eq!(bits(query), bits(expected_query));
                    prop_assert_eq!(bits(rows), bits(expected_rows));
                }
                (found, _) => prop_assert!(false, "{:?}", found),
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes: Vec<u8>, magic in 0usize..4) {
        let magic: &[u8] =
            [&b""[..], b"\x1f\x8b\x08\0\0\0\0\0\0\0", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"][magic];
        read([magic, &bytes].concat());
    }

    #[test]
    fn damaged_pool_files_are_read_or_refused(
        pools in proptest::collection::vec(pool(), 1..4),
        writes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut: Option<prop::sample::Index>,
    ) {
        let text: String = pools.iter().map(|pool| line(pool) + "\n").collect();
        for bytes in [text.clone().into_bytes(), gzip(text.as_bytes()), zstd(text.as_bytes())] {
            let found = read(damaged(bytes, &writes, cut));
            // A fault of the file itself is the last thing said.
            let last = found.len().saturating_sub(1);
            for (index, pool) in found.iter().enumerate() {
                if let Err(error) = pool {
                    prop_assert!(error.pool_id().is_some() || index == last, "{error}");
                }
            }
        }
    }

    #[test]
    fn damaged_stores_and_archives_are_read_or_refused(
        writes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut: Option<prop::sample::Index>,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, damaged(safetensors(), &writes, cut)).unwrap();
        if let Ok(store) = Store::open(&path) {
            prop_assert_eq!(store.memories().len(), store.len() * store.dimension());
            prop_assert!((0..store.len() as u32).all(|row| store.memory(row).is_some()));
        }
        for bytes in [conversation(), zipped(&conversation())] {
            fs::write(&path, damaged(bytes, &writes, cut)).unwrap();
            let _ = locomo::pools(&path);
        }
    }
}
