//! A model in a folder: what loads, and what is refused with which words.
#![cfg(feature = "neural")]

mod tiny;

use rerank_bench::rerank::{Engine, OpenOptions};
use rerank_bench::weights::WeightsSource;
use tiny::{Copy, folder, load, refused, words};

fn message(copy: &Copy) -> String {
    let error = refused(copy.path(), &OpenOptions::default());
    assert_eq!(error.exit_code(), 1, "{error}");
    error.to_string()
}

fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn a_folder_without_one_of_its_files_is_refused_by_name() {
    assert_says(&message(&Copy::new().remove("config.json")), &["holds no config.json"]);
    assert_says(&message(&Copy::new().remove("tokenizer.json")), &["holds no tokenizer.json", "--tokenizer"]);
    assert_says(&message(&Copy::new().remove("model.safetensors")), &["holds no model.safetensors"]);
    let gone = folder().join("nowhere");
    assert_says(&refused(&gone, &OpenOptions::default()).to_string(), &["nowhere", "is not a folder"]);
}

#[test]
fn a_folder_with_only_a_pickle_names_the_conversion() {
    let copy = Copy::new().remove("model.safetensors");
    std::fs::write(copy.file("pytorch_model.bin"), "pickle").unwrap();
    assert_says(&message(&copy), &["pytorch_model.bin", "save_pretrained", "safe_serialization"]);
}

#[test]
fn truncated_and_corrupt_safetensors_are_told_apart_from_absent_ones() {
    let copy = Copy::new();
    let whole = std::fs::read(copy.file("model.safetensors")).unwrap();
    for kept in [0, 7, 100, 5000, whole.len() / 2, whole.len() - 1] {
        std::fs::write(copy.file("model.safetensors"), &whole[..kept]).unwrap();
        assert_says(&message(&copy), &["model.safetensors", "corrupt"]);
    }
    let mut noise = whole.clone();
    noise[..2000].fill(0xA5);
    std::fs::write(copy.file("model.safetensors"), noise).unwrap();
    assert_says(&message(&copy), &["model.safetensors", "corrupt"]);
}

#[test]
fn a_missing_tensor_is_named_and_a_wrong_shape_shown_beside_the_right_one() {
    let gone = "roberta.encoder.layer.1.output.dense.weight";
    let copy = Copy::new().tensors(|tensors| drop(tensors.remove(gone)));
    assert_says(&message(&copy), &[gone]);
    let copy = Copy::new().tensors(|tensors| {
        let tensor = tensors.get_mut(gone).unwrap();
        tensor.0 = vec![128, 64];
    });
    assert_says(&message(&copy), &[gone, "[128, 64]", "[64, 128]"]);
    let copy = Copy::new().config("vocab_size", 2000.into());
    assert_says(&message(&copy), &["word_embeddings.weight", "[1000, 64]", "[2000, 64]"]);
    let candle = OpenOptions { engine: Engine::Candle, ..OpenOptions::default() };
    assert_says(&refused(copy.path(), &candle).to_string(), &["word_embeddings.weight", "[2000, 64]"]);
}

#[test]
fn heads_labels_and_vocabularies_that_do_not_fit_are_refused() {
    assert_says(&message(&Copy::new().config("num_attention_heads", 5.into())), &["hidden_size 64", "5"]);
    let labels = serde_json::json!({"0": "entailment", "1": "neutral", "2": "contradiction"});
    assert_says(&message(&Copy::new().config("id2label", labels)), &["3 labels", "entailment"]);
    // The configuration may not say so, but the head does.
    let copy = Copy::new().tensors(|tensors| {
        tensors.insert("classifier.out_proj.weight".to_owned(), (vec![2, 64], vec![0.1; 128]));
    });
    assert_says(&message(&copy), &["classifier.out_proj.weight", "2 rows"]);
    let copy = Copy::new().config("vocab_size", 900.into()).tensors(|tensors| {
        let (shape, values) = tensors.get_mut("roberta.embeddings.word_embeddings.weight").unwrap();
        shape[0] = 900;
        values.truncate(900 * 64);
    });
    assert_says(&message(&copy), &["tokenizer.json", "vocabulary of 1000", "900 embedding rows"]);
    std::fs::write(copy.file("tokenizer.json"), "{}").unwrap();
    assert_says(&message(&copy), &["tokenizer.json", "is not a tokenizer"]);
}

#[test]
fn shards_load_like_one_file_and_a_missing_shard_is_named() {
    let one = load(&folder(), &OpenOptions::default()).unwrap();
    let copy = Copy::new();
    let whole = std::fs::read(copy.file("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&whole).unwrap();
    let (mut map, mut parts) = (serde_json::Map::new(), [Vec::new(), Vec::new()]);
    for (number, (name, view)) in tensors.iter().enumerate() {
        map.insert(name.to_owned(), format!("model-0000{}-of-00002.safetensors", number % 2 + 1).into());
        parts[number % 2].push((name, view));
    }
    for (number, part) in parts.into_iter().enumerate() {
        let bytes = safetensors::serialize(part, None).unwrap();
        std::fs::write(copy.file(&format!("model-0000{}-of-00002.safetensors", number + 1)), bytes).unwrap();
    }
    let index = serde_json::json!({"metadata": {}, "weight_map": map});
    std::fs::write(copy.file("model.safetensors.index.json"), index.to_string()).unwrap();
    let copy = copy.remove("model.safetensors");
    let sharded = load(copy.path(), &OpenOptions::default()).unwrap();
    let texts = [words(20, 1), words(3, 2)];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let score = |s: &dyn rerank_bench::rerank::Scorer| s.score("w5 w6", &texts, 2, &mut ()).unwrap().logits;
    assert_eq!(score(&*one), score(&*sharded));
    let copy = copy.remove("model-00002-of-00002.safetensors");
    assert_says(&message(&copy), &["model-00002-of-00002.safetensors", "is missing"]);
}

#[test]
fn half_precision_weights_are_widened() {
    let whole = load(&folder(), &OpenOptions::default()).unwrap();
    let half = Copy::new().tensors_as(
        |_| (),
        safetensors::Dtype::F16,
        |v| half::f16::from_f32(v).to_le_bytes().to_vec(),
    );
    let brain = Copy::new().tensors_as(
        |_| (),
        safetensors::Dtype::BF16,
        |v| half::bf16::from_f32(v).to_le_bytes().to_vec(),
    );
    let texts = [words(30, 4), words(9, 5)];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let exact = whole.score("w7", &texts, 2, &mut ()).unwrap().logits;
    for (copy, distance) in [(half, 5e-3), (brain, 5e-2)] {
        let scorer = load(copy.path(), &OpenOptions::default()).unwrap();
        assert_eq!(scorer.info().dtype, "f32");
        for (a, b) in scorer.score("w7", &texts, 2, &mut ()).unwrap().logits.iter().zip(&exact) {
            assert!(a != b && (a - b).abs() < distance, "{a} {b}");
        }
    }
}

#[test]
fn random_weights_need_only_the_configuration() {
    let copy = Copy::new().remove("model.safetensors").remove("tokenizer.json");
    let options = OpenOptions { weights: WeightsSource::Random, ..OpenOptions::default() };
    let scorer = load(copy.path(), &options).unwrap();
    let notes = scorer.info().notes.join("\n");
    assert_says(&notes, &["stand-in", "random weights"]);
    let score = |options: &OpenOptions| {
        let scorer = load(copy.path(), options).unwrap();
        scorer.score("Which pets?", &["A puppy named Toby", "The weather"], 2, &mut ()).unwrap().logits
    };
    assert_eq!(score(&options), score(&options));
    assert_ne!(score(&options), score(&OpenOptions { seed: 1, ..options.clone() }));
}
