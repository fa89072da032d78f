//! The pool file: what is read, how it is said what is wrong, and that reading goes on after it.

use std::io::{Cursor, Write};
use std::path::Path;

use rerank_bench::pool::jsonl::Reader;
use rerank_bench::pool::{Elements, Missing, Pool, Store, StoreDtype, StoredQuery, Vectors};
use rerank_bench::{Error, Result};

fn read(text: impl Into<Vec<u8>>) -> Vec<Result<Pool>> {
    Reader::from_read(Cursor::new(text.into()), "pools.jsonl", "").unwrap().collect()
}

fn read_one(text: &str) -> Pool {
    let mut pools = read(text);
    assert_eq!(pools.len(), 1, "{pools:?}");
    pools.remove(0).unwrap()
}

fn fault(text: &str) -> String {
    let mut pools = read(text);
    assert_eq!(pools.len(), 1, "{pools:?}");
    pools.remove(0).expect_err("should be refused").to_string()
}

/// A safetensors file with these tensors, each `(name, dtype, shape, little-endian data)`, with `padding`
/// spaces after its header.
fn safetensors(tensors: &[(&str, &str, &[usize], Vec<u8>)], padding: usize) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert(
            name.to_string(),
            serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}),
        );
        data.extend_from_slice(bytes);
    }
    let header = serde_json::to_string(&header).unwrap() + &" ".repeat(padding);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A folder with a store of three memories and two queries, d = 2, and a table with ids for the first two.
fn shared_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = safetensors(
        &[
            ("memories", "F32", &[3, 2], f32_bytes(&[1.0, 0.0, 0.0, 1.0, 0.5, 0.5])),
            ("queries", "F32", &[2, 2], f32_bytes(&[0.6, 0.8, 0.8, 0.6])),
        ],
        0,
    );
    std::fs::write(folder.path().join("store.safetensors"), store).unwrap();
    let table = "{\"id\":\"a\",\"text\":\"first\",\"timestamp\":\"2024\",\"session\":1}\n{\"id\":\"b\"}\n\n";
    std::fs::write(folder.path().join("memories.jsonl"), table).unwrap();
    folder
}

fn read_in(folder: &Path, text: &str) -> Vec<Result<Pool>> {
    std::fs::write(folder.join("pools.jsonl"), text).unwrap();
    Reader::open(folder.join("pools.jsonl")).unwrap().collect()
}

fn inline(pool: &Pool) -> (&[f32], &[f32], usize) {
    match &pool.vectors {
        Vectors::Inline { query, rows, dimension } => (query, rows, *dimension),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_pool_is_read() {
    let pool = read_one(
        r#"{"id":"q17","query":"Which pets?","query_embedding":[0.6,0.8],"unknown":{"deep":[1,{}]},
            "candidates":[{"id":"m3","text":"A puppy","embedding":[1,-0.0],"timestamp":"2023","session":"7"},
                          {"id":5,"text":"","embedding":[1e-50, 2.5E1],"session":3,"timestamp":null}],
            "gold":["m3","m9",7,"m3"],"category":2}"#
            .replace('\n', " ")
            .as_str(),
    );
    assert_eq!((pool.id.as_str(), pool.query.as_deref()), ("q17", Some("Which pets?")));
    assert_eq!(inline(&pool), (&[0.6, 0.8][..], &[1.0, -0.0, 0.0, 25.0][..], 2));
    assert_eq!(inline(&pool).1[1].to_bits(), (-0.0f32).to_bits());
    assert_eq!((pool.candidate_id(0).as_ref(), pool.candidate_id(1).as_ref()), ("m3", "5"));
    assert_eq!(pool.candidates[0].timestamp.as_deref(), Some("2023"));
    assert_eq!(pool.candidates[1].session.as_deref(), Some("3"));
    assert_eq!(pool.candidates[1].timestamp, None);
    assert_eq!(pool.gold, ["m3", "m9", "7"]);
    assert_eq!(pool.category.as_deref(), Some("2"));
    assert_eq!(pool.texts().unwrap(), ("Which pets?", vec!["A puppy", ""]));
}

#[test]
fn missing_ids_are_line_numbers_and_indexes() {
    let text = "\u{feff}\r\n  \t\r\n{\"query\":\"x\",\"candidates\":[{\"text\":\"a\"},{\"id\":null,\"text\":\"b\"}]}\r\n\
                \n{\"id\":1.50,\"query\":\"y\",\"candidates\":[]}";
    let pools: Vec<Pool> = read(text).into_iter().map(Result::unwrap).collect();
    assert_eq!(pools.iter().map(|pool| pool.id.as_str()).collect::<Vec<_>>(), ["3", "1.50"]);
    assert_eq!(pools[0].candidate_id(1), "1");
    assert!(pools[1].is_empty() && pools[1].require_vectors().is_ok());
}

/// What is skipped is skipped without recursion.
#[test]
fn unknown_fields_may_nest_deeply() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let pool =
        read_one(&format!(r#"{{"query":"x","unknown":{deep},"candidates":[{{"text":"a","more":{deep}}}]}}"#));
    assert_eq!(pool.len(), 1);
    let said = fault(&format!(r#"{{"id":"p","query_embedding":{deep},"candidates":[]}}"#));
    assert!(said.contains("must hold numbers only, and has a list at position 0"), "{said}");
}

#[test]
fn an_empty_file_is_no_pool() {
    for text in ["", "\n", "\u{feff}", "\r\n\r\n"] {
        assert!(read(text).is_empty());
    }
}

#[test]
fn what_a_policy_lacks_is_named() {
    let texts = read_one(r#"{"id":"p","query":"x","candidates":[{"id":"m1","text":"a"}]}"#);
    assert!(matches!(texts.vectors, Vectors::None));
    let said = texts.require_vectors().unwrap_err().to_string();
    assert!(said.starts_with(r#"pool "p", candidate "m1": no "embedding""#), "{said}");

    let some = read_one(
        r#"{"id":"p","query_embedding":[1],"candidates":[{"embedding":[1]},{"id":"m2","text":"a"}]}"#,
    );
    assert!(matches!(some.vectors, Vectors::Incomplete(Missing::Candidate { index: 1, .. })));
    let said = some.require_vectors().unwrap_err().to_string();
    assert!(said.starts_with(r#"pool "p", candidate "m2": no "embedding""#), "{said}");
    let said = some.texts().unwrap_err().to_string();
    assert!(said.starts_with(r#"pool "p": no "query""#), "{said}");

    let no_query = read_one(r#"{"id":"p","query":"x","candidates":[{"embedding":[1]}]}"#);
    let said = no_query.require_vectors().unwrap_err().to_string();
    assert!(said.starts_with(r#"pool "p": no "query_embedding""#), "{said}");
    let said = no_query.texts().unwrap_err().to_string();
    assert!(said.starts_with(r#"pool "p", candidate "0": no "text""#), "{said}");
}

/// Cutting a pool before the candidate that lacks a vector makes it complete.
#[test]
fn pools_are_cut_with_their_vectors() {
    let folder = shared_folder();
    let pools = read_in(
        folder.path(),
        r#"{"query_embedding":[1,2],"candidates":[{"embedding":[3,4]},{"embedding":[5,6]},{"text":"a"},{"embedding":[7,8]}]}
{"query_row":0,"embeddings":"store.safetensors","candidates":[{"row":2},{"row":1},{"text":"a"},{"row":0}]}
{"query_row":0,"embeddings":"store.safetensors","candidates":[{"row":1},{"embedding":[3,4]},{"text":"a"},{"row":0}]}
{"query":"x","candidates":[{"embedding":[3,4]},{"text":"a"},{"text":"b"},{"text":"c"}]}
"#,
    );
    for (number, pool) in pools.into_iter().enumerate() {
        let pool = pool.unwrap();
        for count in [9, 4, 3, 2, 1, 0] {
            let mut cut = pool.clone();
            cut.truncate(count);
            assert_eq!(cut.len(), count.min(4));
            if count == 0 {
                assert!(cut.require_vectors().is_ok());
                continue;
            }
            match (number, cut.require_vectors()) {
                (0, Ok(Vectors::Inline { query, rows, .. })) if count <= 2 => {
                    assert_eq!(
                        (&query[..], &rows[..]),
                        (&[1.0, 2.0][..], &[3.0, 4.0, 5.0, 6.0][..2 * count])
                    );
                }
                (1, Ok(Vectors::Stored { rows, .. })) if count <= 2 => assert_eq!(rows[..], [2, 1][..count]),
                (2, Ok(Vectors::Inline { rows, .. })) if count <= 2 => {
                    assert_eq!(rows[..], [0.0, 1.0, 3.0, 4.0][..2 * count]);
                }
                (0..3, Err(error)) if count > 2 => assert!(error.to_string().contains("candidate \"2\"")),
                (3, Err(error)) => assert!(error.to_string().contains("no \"query_embedding\"")),
                (_, other) => panic!("pool {number} cut to {count}: {other:?}"),
            }
        }
    }
}

/// Every refusal, word for word.
#[test]
fn faults_say_what_and_where() {
    let long = "9".repeat(60);
    let cases: &[(&str, &str)] = &[
        (r#"{"id":"p","query":"x"}"#, r#"pool "p": has no "candidates" (and no "rows")"#),
        (
            r#"{"id":"p","candidates":[]}"#,
            r#"pool "p": has neither "query" nor "query_embedding"; give at least one"#,
        ),
        (
            r#"{"candidates":[],"rows":[],"query":"x"}"#,
            r#"pool "1": has both "candidates" and "rows"; give one of them"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"id":"m"}]}"#,
            r#"pool "p", candidate "m": has neither "text" nor "embedding", nor a "row" with one"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"row":0}]}"#,
            r#"pool "p", candidate "0": has a "row", and the pool names neither "embeddings" nor "memories""#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[],"gold_rows":[1]}"#,
            r#"pool "p": "gold_rows": has a "row", and the pool names neither "embeddings" nor "memories""#,
        ),
        (
            r#"{"id":"p","query_row":0,"candidates":[]}"#,
            r#"pool "p": has a "query_row", and names no "embeddings" that it could be a row of"#,
        ),
        (
            r#"{"id":"p","query_embedding":[1,2],"candidates":[{"id":"m","embedding":[1,2,3]}]}"#,
            r#"pool "p", candidate "m": "embedding" has dimension 3, and the query has 2"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"embedding":[1,2]},{"embedding":[1]}]}"#,
            r#"pool "p", candidate "1": "embedding" has dimension 1, and the first candidate has 2"#,
        ),
        (
            r#"{"id":"p","query_embedding":[],"candidates":[]}"#,
            r#"pool "p": "query_embedding" is an empty list"#,
        ),
        (
            r#"{"id":"p","query_embedding":[1,1e39],"candidates":[]}"#,
            r#"pool "p": "query_embedding" overflows f32 with 1e39 at position 1 (from 0)"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"embedding":[0.5, null],"id":"m"}]}"#,
            r#"pool "p", candidate "m": "embedding" must hold numbers only, and has null at position 1 (from 0)"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"embedding":["1, 2"],"id":"m"}]}"#,
            r#"pool "p", candidate "m": "embedding" must hold numbers only, and has a string at position 0 (from 0)"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"embedding":[[1]],"id":"m"}]}"#,
            r#"pool "p", candidate "m": "embedding" must hold numbers only, and has a list at position 0 (from 0)"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"embedding":"AAAA","id":"m"}]}"#,
            r#"pool "p", candidate "m": "embedding" is a string, and must be a list of numbers"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"id":"1","text":""},{"text":""}]}"#,
            "pool \"p\", candidate \"1\": two candidates, at index 0 and 1, have this id (a missing id is the index); \
             ids must differ within a pool",
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"id":"m","text":5}]}"#,
            r#"pool "p", candidate "m": "text": invalid type: integer `5`, expected a string (column 54)"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"text":"a"},{"text":5,"id":"m"}]}"#,
            r#"pool "p": "text" in the candidate at index 1: invalid type: integer `5`, expected a string (column 58)"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":["m"]}"#,
            r#"pool "p": "candidates" in the candidate at index 0: invalid type: string "m", expected one object a candidate (column 39)"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":{}}"#,
            r#"pool "p": "candidates": invalid type: map, expected a list of candidates (column 37)"#,
        ),
        (
            r#"{"id":"p","query":"x","rows":[-1]}"#,
            r#"pool "p": "rows": invalid value: integer `-1`, expected u64 (column 32)"#,
        ),
        (
            r#"{"id":["p"],"query":"x","candidates":[]}"#,
            r#"pool "1": "id": expected a string or a number, found a list (column 11)"#,
        ),
        (
            r#"{"id":"p","query_embedding":[1,NaN],"candidates":[]}"#,
            "pool \"p\": NaN or Infinity in \"query_embedding\" (column 32), and JSON has finite numbers only",
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"id":"m","embedding":[-Infinity]}]}"#,
            "pool \"p\", candidate \"m\": NaN or Infinity in \"embedding\" (column 61), and JSON has finite numbers only",
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"text":"a"},NaN]}"#,
            "pool \"p\": NaN or Infinity in \"candidates\" in the candidate at index 1 (column 50), and JSON has finite numbers only",
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"text":"a"}],"other":Infinity}"#,
            "pool \"p\": NaN or Infinity (column 59), and JSON has finite numbers only",
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"id":"m","text":"a" "b"}]}"#,
            r#"pool "p", candidate "m": is not valid JSON: expected `,` or `}` (column 58)"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[]} {}"#,
            r#"pool "p": is not valid JSON: trailing characters (column 40)"#,
        ),
        (
            r#"{"id":"p","query":"x","candidates":[{"text":"#,
            "pool \"p\": the line ends within its JSON value in the candidate at index 0; it must be one whole object on one line",
        ),
        ("[]", r#"pool "1": invalid type: sequence, expected a pool, as one object on one line"#),
        ("hello", r#"pool "1": is not valid JSON: expected value (column 1)"#),
    ];
    for (line, message) in cases {
        assert_eq!(fault(line), format!("pools.jsonl, line 1: {message}"), "{line}");
    }
    let overflow = format!(r#"{{"id":"p","query_embedding":[{long}],"candidates":[]}}"#);
    assert!(fault(&overflow).contains("overflows f32 with 9999"));
}

#[test]
fn reading_goes_on_after_a_bad_line() {
    let good = r#"{"id":"good","query":"x","candidates":[]}"#;
    let bad = [
        (&b"{\"id\":\"b1\",\"query\":\"x\"}"[..], "b1"),
        (b"{\"id\":\"b2\",\"query\":", "b2"),
        (b"{\"query\":", "5"),
        (b"\"\xff\"", "7"),
    ];
    let mut text = Vec::new();
    for (line, _) in bad {
        text.extend_from_slice(line);
        text.extend_from_slice(format!("\n{good}\n").as_bytes());
    }
    let pools = read(text);
    assert_eq!(pools.len(), 8);
    for (index, pool) in pools.iter().enumerate() {
        match pool {
            Ok(pool) => assert_eq!((index % 2, pool.id.as_str()), (1, "good")),
            Err(error) => assert_eq!(error.pool_id().as_deref(), Some(bad[index / 2].1), "{error}"),
        }
    }
}

#[test]
fn rows_point_into_store_and_table() {
    let folder = shared_folder();
    let pools = read_in(
        folder.path(),
        r#"{"query":"x","query_row":1,"embeddings":"store.safetensors","memories":"memories.jsonl","rows":[1,0],"gold_rows":[0,1,1,2]}
{"query_embedding":[0,1],"embeddings":"store.safetensors","candidates":[{"row":2,"id":"own"},{"row":0}],"gold":["x"],"gold_rows":[2,0,1]}
{"query_row":0,"embeddings":"store.safetensors","memories":"memories.jsonl","candidates":[{"row":0,"text":"other"},{"id":"z","embedding":[3,4]}]}
{"query":"only texts","memories":"memories.jsonl","rows":[0]}
"#,
    );
    let pools: Vec<Pool> = pools.into_iter().map(Result::unwrap).collect();

    let Vectors::Stored { store, query, rows } = &pools[0].vectors else { panic!("{:?}", pools[0]) };
    assert_eq!((query, &rows[..]), (&StoredQuery::Row(1), &[1, 0][..]));
    assert_eq!((store.len(), store.queries(), store.dimension()), (3, 2, 2));
    assert_eq!(pools[0].candidates[1].text.as_deref(), Some("first"));
    assert_eq!(pools[0].candidates[1].session.as_deref(), Some("1"));
    assert_eq!(pools[0].gold, ["a", "b", "row 2"]);

    let Vectors::Stored { query, .. } = &pools[1].vectors else { panic!("{:?}", pools[1]) };
    assert_eq!(query, &StoredQuery::Inline(vec![0.0, 1.0]));
    assert_eq!((pools[1].candidate_id(0).as_ref(), pools[1].candidate_id(1).as_ref()), ("own", "1"));
    assert_eq!(pools[1].gold, ["x", "own", "1", "row 1"]);

    assert_eq!(inline(&pools[2]), (&[0.6, 0.8][..], &[1.0, 0.0, 3.0, 4.0][..], 2));
    assert_eq!(pools[2].candidates[0].text.as_deref(), Some("other"));
    assert_eq!(pools[2].candidate_id(0), "a");

    assert!(matches!(pools[3].vectors, Vectors::None));
    assert_eq!(pools[3].texts().unwrap().1, ["first"]);
}

#[test]
fn rows_outside_are_refused() {
    let folder = shared_folder();
    let store = folder.path().join("store.safetensors").display().to_string();
    let table = folder.path().join("memories.jsonl").display().to_string();
    let files = r#""embeddings":"store.safetensors","memories":"memories.jsonl""#;
    let only_store = r#""embeddings":"store.safetensors""#;
    for (rest, message) in [
        (
            format!(r#""query":"x",{only_store},"rows":[0,3]"#),
            format!(r#"pool "p", candidate "1": row 3 is not in {store}, which has 3 memories"#),
        ),
        (
            format!(r#""query":"x",{only_store},"rows":[99999999999]"#),
            format!(r#"pool "p", candidate "0": row 99999999999 is not in {store}, which has 3 memories"#),
        ),
        (
            format!(r#""query":"x",{files},"rows":[3]"#),
            format!(r#"pool "p", candidate "0": row 3 is not in {table}, which has 3 lines"#),
        ),
        (
            format!(r#""query_row":2,{files},"rows":[]"#),
            format!(r#"pool "p": "query_row" is 2, and {store} has 2 queries"#),
        ),
        (
            format!(r#""query_row":0,{files},"rows":[],"gold_rows":[7]"#),
            format!(r#"pool "p": "gold_rows": row 7 is not in {table}, which has 3 lines"#),
        ),
        (
            format!(r#""query_embedding":[1,2,3],{files},"rows":[0]"#),
            r#"pool "p", candidate "a": its row of the store has dimension 2, and the query has 3"#.into(),
        ),
        (
            format!(r#""query":"x",{files},"rows":[1,1]"#),
            "pool \"p\", candidate \"b\": two candidates, at index 0 and 1, have this id (a missing id is the index); \
             ids must differ within a pool"
                .into(),
        ),
        (
            r#""query":"x","memories":"memories.jsonl","rows":[1]"#.into(),
            r#"pool "p", candidate "b": has neither "text" nor "embedding", nor a "row" with one"#.into(),
        ),
    ] {
        let mut pools = read_in(folder.path(), &format!(r#"{{"id":"p",{rest}}}"#));
        let said = pools.remove(0).expect_err(&rest).to_string();
        let file = folder.path().join("pools.jsonl").display().to_string();
        assert_eq!(said, format!("{file}, line 1: {message}"));
    }
}

#[test]
fn faulty_files_are_named() {
    let folder = shared_folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("broken.jsonl"), "{}\n{\"id\":[]}\n").unwrap();
    for (name, field, expected) in [
        ("absent.safetensors", "embeddings", "cannot open the store"),
        ("memories.jsonl", "embeddings", "is not a whole safetensors file"),
        ("absent.jsonl", "memories", "cannot open it"),
        ("broken.jsonl", "memories", ", line 2: \"id\": expected a string or a number"),
        (".", "memories", "is a folder"),
        (".", "embeddings", "is a folder"),
    ] {
        let mut pools = read_in(
            folder.path(),
            &format!(r#"{{"id":"p","query":"x","candidates":[],"{field}":"{name}"}}"#),
        );
        let said = pools.remove(0).expect_err(name).to_string();
        assert!(said.contains("pool \"p\": ") && said.contains(name) && said.contains(expected), "{said}");
    }
    for (name, expected) in [("absent.jsonl", "cannot open it"), (".", "is a folder")] {
        let error = Reader::open(at(name)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!((error.pool_id(), error.exit_code()), (None, 1));
    }
}

#[test]
fn stores_of_every_dtype_are_read_aligned_or_not() {
    use half::{bf16, f16};
    let values = [1.5f32, -0.25, 0.0, 1024.0, 0.125, 3.0];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.safetensors");
    let f16s: Vec<u8> = values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
    let bf16s: Vec<u8> = values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect();
    let widened = |elements: Elements| -> Vec<f32> {
        match elements {
            Elements::F32(row) => row.to_vec(),
            Elements::F16(row) => row.iter().map(|value| value.to_f32()).collect(),
            Elements::Bf16(row) => row.iter().map(|value| value.to_f32()).collect(),
        }
    };
    for padding in 0..8 {
        for (name, dtype, bytes) in [
            ("F32", StoreDtype::F32, f32_bytes(&values)),
            ("F16", StoreDtype::F16, f16s.clone()),
            ("BF16", StoreDtype::Bf16, bf16s.clone()),
        ] {
            let queries = f32_bytes(&[7.0, 8.0, 9.0]);
            let file = safetensors(
                &[("memories", name, &[2, 3], bytes), ("queries", "F32", &[1, 3], queries)],
                padding,
            );
            std::fs::write(&path, file).unwrap();
            let store = Store::open(&path).unwrap();
            assert_eq!((store.dtype(), store.len(), store.queries()), (dtype, 2, 1));
            assert_eq!(widened(store.memories()), values);
            assert_eq!(widened(store.memory(1).unwrap()), values[3..]);
            assert_eq!(widened(store.query(0).unwrap()), [7.0, 8.0, 9.0]);
            assert!(store.memory(2).is_none() && store.query(1).is_none());
        }
    }
}

#[test]
fn faulty_tensors_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.safetensors");
    let rows = |count: usize| f32_bytes(&vec![1.0; count]);
    for (tensors, expected) in [
        (
            vec![("m", "F32", &[1, 2][..], rows(2))],
            r#"has no tensor "memories" [N, dimension]; its tensors: "m""#,
        ),
        (
            vec![("memories", "F64", &[1, 1][..], rows(2))],
            r#"tensor "memories" holds F64, and a store holds F32, F16 or BF16"#,
        ),
        (
            vec![("memories", "F32", &[2][..], rows(2))],
            r#"tensor "memories" has shape [2], and a store's are matrices [rows, dimension]"#,
        ),
        (vec![("memories", "F32", &[2, 0][..], rows(0))], r#"tensor "memories" has rows of length 0"#),
        (
            vec![("memories", "F32", &[1, 2][..], rows(2)), ("queries", "F32", &[1, 3], rows(3))],
            "tensor \"queries\" has rows of length 3 and \"memories\" of 2; both must come from one encoder",
        ),
    ] {
        std::fs::write(&path, safetensors(&tensors, 0)).unwrap();
        let said = Store::open(&path).unwrap_err().to_string();
        assert_eq!(said, format!("{}: {expected}", path.display()));
    }
    let whole = safetensors(&[("memories", "F32", &[2, 2], rows(4))], 0);
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let said = Store::open(&path).unwrap_err().to_string();
        assert!(said.contains("is not a whole safetensors file"), "{said}");
    }
}

#[test]
fn numbers_are_rounded_once() {
    // Just above the midpoint of 1 and the next f32, but exactly it once rounded to f64: through f64 it would
    // become 1 (ties to even), and its nearest f32 is the next one.
    let above = "1.00000005960464477539062500000000001";
    assert_eq!(above.parse::<f64>().unwrap() as f32, 1.0);
    let pool =
        read_one(&format!(r#"{{"query_embedding":[{above}, 16777217, 3.4028235e38],"candidates":[]}}"#));
    assert_eq!(inline(&pool).0, [1.0 + f32::EPSILON, 16777216.0, f32::MAX]);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn compressed_files_of_several_parts_are_read() {
    let lines: Vec<String> =
        (0..2000).map(|id| format!("{{\"id\":{id},\"query\":\"x\",\"candidates\":[]}}\n")).collect();
    let text = lines.concat();
    let (head, tail) = text.as_bytes().split_at(text.len() / 3);
    let skippable = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    for whole in [
        text.clone().into_bytes(),
        gzip(text.as_bytes()),
        [gzip(head), gzip(b""), gzip(tail)].concat(),
        zstd(text.as_bytes()),
        [skippable.clone(), zstd(head), zstd(b""), skippable.clone(), zstd(tail), skippable.clone()].concat(),
    ] {
        let ids: Vec<String> = read(whole.clone()).into_iter().map(|pool| pool.unwrap().id).collect();
        assert_eq!(ids, (0..2000).map(|id| id.to_string()).collect::<Vec<_>>());
    }
    // Cut short: what was whole is read, then one fault of the file, then nothing.
    for cut in [gzip(text.as_bytes()), zstd(text.as_bytes())] {
        let mut pools = read(&cut[..cut.len() - 5]);
        let error = pools.pop().unwrap().unwrap_err();
        assert!(matches!(&error, Error::File { .. }), "{error}");
        assert!(error.to_string().starts_with("pools.jsonl: reading stopped after line "), "{error}");
        assert_eq!(error.pool_id(), None);
        assert!(pools.iter().all(Result::is_ok));
    }
}
