//! LoCoMo as published, in each of its forms, and as a pool file; the real data where it is beside the checkout.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rerank_bench::pool::jsonl::Reader;
use rerank_bench::pool::{Pool, StoredQuery, Vectors, locomo};
use serde_json::{Map, Value, json};

/// A conversation with an empty session, a picture, a date that has no session, and odd evidence.
fn conversation() -> Value {
    json!({
        "speaker_a": "Ann", "speaker_b": "Bo",
        "session_2_date_time": "12:05 am on 29 February, 2024",
        "session_2": [
            {"speaker": "Bo", "dia_id": "D2:1", "text": "Look! \n", "img_url": ["x"], "blip_caption": "a photo of a cat "},
            {"speaker": "Ann", "dia_id": "D2:2", "text": " Nice  cat."},
        ],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Hi Bo!"}],
        "session_3_date_time": "some day", "session_3": [],
        "session_10_date_time": "some day",
        "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "Bye."}],
        "session_11_date_time": "9:00 am on 1 June, 2024",
        "session_1_observation": {"Ann": []}, "session_1_summary": "They met.", "events_session_1": {},
        "qa": [
            {"question": "Who has a cat?", "answer": "Bo", "evidence": ["D2:01; D:1:1"], "category": 4},
            {"question": "Who has a dog?", "adversarial_answer": "Bo", "evidence": ["D2:1"], "category": 5},
            {"question": "When?", "answer": 2024, "evidence": ["D2:2", "D9:9", "D2:2"], "category": 2},
            {"question": "Why?", "answer": "", "evidence": [], "category": 3},
        ],
    })
}

/// The same conversation as an item of the one-file form.
fn nested(name: &str) -> Value {
    let Value::Object(fields) = conversation() else { unreachable!() };
    let (mut outer, mut inner) = (Map::new(), Map::new());
    for (key, value) in fields {
        let outside = key == "qa" || key.starts_with("events");
        (if outside { &mut outer } else { &mut inner }).insert(key, value);
    }
    outer.insert("sample_id".into(), name.into());
    outer.insert("conversation".into(), inner.into());
    outer.into()
}

fn zip(path: &Path, files: &[(&str, String)], method: zip::CompressionMethod) {
    let mut archive = zip::ZipWriter::new(fs::File::create(path).unwrap());
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    archive.add_directory("data/", options).unwrap();
    for (name, text) in files {
        archive.start_file(*name, options).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
}

fn described(pool: &Pool) -> (String, Vec<String>, Vec<String>) {
    let ids = (0..pool.len()).map(|index| pool.candidate_id(index).into_owned()).collect();
    (pool.id.clone(), ids, pool.gold.clone())
}

#[test]
fn turns_become_memories_and_questions_pools() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("7.json");
    fs::write(&path, conversation().to_string()).unwrap();
    let pools = locomo::pools(&path).unwrap();
    let ids = ["7/D1:1", "7/D2:1", "7/D2:2", "7/D10:1"];
    let expected = [
        ("q0", "single-hop", &["7/D2:1", "7/D1:1"][..]),
        ("q2", "temporal", &["7/D2:2"]),
        ("q3", "open-domain", &[]),
    ];
    assert_eq!(pools.len(), 3);
    for (pool, (id, category, gold)) in pools.iter().zip(expected) {
        assert_eq!((pool.id.as_str(), pool.category.as_deref()), (id, Some(category)));
        assert_eq!(pool.gold, gold);
        assert_eq!(described(pool).1, ids);
        assert!(matches!(pool.vectors, Vectors::None));
    }
    let (question, texts) = pools[0].texts().unwrap();
    assert_eq!(question, "Who has a cat?");
    assert_eq!(
        texts,
        [
            "Ann (1:56 pm on 8 May, 2023): Hi Bo!",
            "Bo (12:05 am on 29 February, 2024): Look! and shared a photo of a cat.",
            "Ann (12:05 am on 29 February, 2024): Nice  cat.",
            "Ann (some day): Bye.",
        ]
    );
    let of = |index: usize| {
        let memory = &pools[0].candidates[index];
        (memory.timestamp.as_deref().unwrap(), memory.session.as_deref().unwrap())
    };
    assert_eq!(of(1), ("2024-02-29T00:05:00Z", "2"));
    assert_eq!(of(3), ("some day", "10"));
}

#[test]
fn every_form_gives_the_same_pools() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let list = json!([nested("conv-9"), nested("conv-10")]).to_string();
    fs::write(at("list.json"), &list).unwrap();
    fs::create_dir_all(at("unpacked/data/deep")).unwrap();
    let text = conversation().to_string();
    for name in ["unpacked/data/deep/10.json", "unpacked/data/deep/9.json", "unpacked/data/deep/.hidden.json"]
    {
        fs::write(at(name), &text).unwrap();
    }
    fs::write(at("unpacked/README.txt"), "LoCoMo").unwrap();
    let files = [("data/10.json", text.clone()), ("data/9.json", text), ("data/._9.json", "\0".into())];
    zip(&at("stored.zip"), &files, zip::CompressionMethod::Stored);
    zip(&at("deflated.zip"), &files, zip::CompressionMethod::Deflated);
    zip(&at("list.zip"), &[("locomo10.json", list)], zip::CompressionMethod::Deflated);

    let pools = |name: &str| -> Vec<_> {
        let pools = locomo::pools(at(name)).unwrap();
        pools.iter().map(|pool| (described(pool), pool.candidates.clone(), pool.query.clone())).collect()
    };
    let expected = pools("list.json");
    let ids: Vec<&str> = expected.iter().map(|pool| pool.0.0.as_str()).collect();
    assert_eq!(ids, ["q0", "q2", "q3", "q4", "q6", "q7"]);
    assert_eq!(expected[3].0.2, ["10/D2:1", "10/D1:1"]);
    for name in ["unpacked", "unpacked/data/deep", "stored.zip", "deflated.zip", "list.zip"] {
        assert_eq!(pools(name), expected, "{name}");
    }
}

#[test]
fn faults_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut conversation = conversation();
        change(&mut conversation);
        conversation.to_string()
    };
    let question = changed(&|data| data["qa"][2]["category"] = 6.into());
    let turn = changed(&|data| data["session_2"][1] = json!({"speaker": "Ann", "dia_id": "D2:2"}));
    let twice = changed(&|data| data["session_2"][1]["dia_id"] = "D1:1".into());
    let date = changed(&|data| {
        data.as_object_mut().unwrap().remove("session_1_date_time");
    });
    for (text, expected) in [
        ("{", "EOF while parsing"),
        ("{\"id\":\"q1\"}", "conversation 7: has no \"qa\"; is this LoCoMo's data?"),
        ("[1]", "invalid type: integer `1`"),
        ("[]", "holds no questions"),
        ("{\"qa\":[]}", "holds no questions"),
        (&question, "conversation 7: question 2 has category 6, and LoCoMo has 1 to 5"),
        (&turn, "conversation 7: \"session_2\": missing field `text`"),
        (&twice, "conversation 7: two turns have one \"dia_id\""),
        (&date, "conversation 7: has \"session_1\" and no \"session_1_date_time\""),
        ("PK\u{3}\u{4} cut short", "is a broken zip archive"),
    ] {
        fs::write(at("7.json"), text).unwrap();
        let said = locomo::pools(at("7.json")).unwrap_err().to_string();
        assert!(said.starts_with(&at("7.json").display().to_string()) && said.contains(expected), "{said}");
    }
    fs::write(at("7.json"), "{").unwrap();
    let said = locomo::pools(folder.path()).unwrap_err().to_string();
    assert!(said.contains("7.json: EOF while parsing"), "{said}");
    fs::write(at("7.json"), b"\xff\xfe").unwrap();
    for (name, expected) in [
        ("absent.zip", "cannot read LoCoMo from it"),
        ("7.json", "is neither a zip archive nor JSON text"),
        ("empty", "has no JSON file"),
    ] {
        fs::create_dir_all(at("empty")).unwrap();
        let said = locomo::pools(at(name)).unwrap_err().to_string();
        assert!(said.starts_with(&at(name).display().to_string()) && said.contains(expected), "{said}");
    }
}

fn published() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/locomo");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no LoCoMo data beside the checkout");
    None
}

/// The archive says what the pool file made of it says, for every memory and every question.
#[test]
fn the_archive_agrees_with_the_pool_file() {
    let Some(folder) = published() else { return };
    let raw = locomo::pools(folder.join("locomo10.zip")).unwrap();
    let pools: Vec<Pool> =
        Reader::open(folder.join("pools.jsonl")).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!((raw.len(), pools.len()), (1540, 1540));

    let table = fs::read_to_string(folder.join("memories.jsonl")).unwrap();
    let table: Vec<Value> = table.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut memories = HashMap::new();
    for candidate in raw.iter().flat_map(|pool| &pool.candidates) {
        memories.insert(candidate.id.clone().unwrap(), candidate);
    }
    assert_eq!((memories.len(), table.len()), (5882, 5882));
    for row in &table {
        let memory = memories[row["id"].as_str().unwrap()];
        assert_eq!(memory.text.as_deref(), row["text"].as_str());
        assert_eq!(memory.timestamp.as_deref(), row["timestamp"].as_str());
        assert_eq!(memory.session.as_deref(), row["session"].as_str());
    }
    for (raw, pool) in raw.iter().zip(&pools) {
        assert_eq!((&raw.id, &raw.query, &raw.category), (&pool.id, &pool.query, &pool.category));
        assert_eq!(raw.gold, pool.gold, "{}", raw.id);
    }
}

#[test]
fn every_pool_is_read_and_shares_the_store() {
    let Some(folder) = published() else { return };
    let pools: Vec<Pool> =
        Reader::open(folder.join("pools.jsonl")).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(pools.len(), 1540);
    let store = |pool: &Pool| match &pool.vectors {
        Vectors::Stored { store, .. } => Arc::clone(store),
        other => panic!("pool {}: {other:?}", pool.id),
    };
    let first = store(&pools[0]);
    assert_eq!((first.len(), first.queries(), first.dimension()), (5882, 1986, 384));
    assert!(pools.iter().all(|pool| Arc::ptr_eq(&store(pool), &first)));

    let pool = &pools[0];
    assert_eq!((pool.id.as_str(), pool.len(), pool.category.as_deref()), ("q0", 200, Some("temporal")));
    assert_eq!(pool.candidate_id(0), "26/D1:3");
    assert_eq!(pool.gold, ["26/D1:3"]);
    let Vectors::Stored { query, rows, .. } = &pool.vectors else { unreachable!() };
    assert_eq!((query, &rows[..3]), (&StoredQuery::Row(0), &[2, 195, 110][..]));
    for pool in &pools {
        let (query, texts) = pool.texts().unwrap();
        assert!(!query.is_empty() && texts.iter().all(|text| !text.is_empty()));
        assert!((1..=200).contains(&texts.len()));
    }
}
