//! LoCoMo, read as published: conversations become memories, questions become pools.
//!
//! Every dialogue turn is a memory, `Speaker (date): text`, with ` and shared CAPTION.` where a picture came
//! with it. Every question of the categories 1 to 4 is a pool with all turns of its conversation as
//! candidates, in the conversation's order, without embeddings; the annotated evidence is its gold. Questions
//! of category 5 (adversarial) have no answer in the conversation and are left out.
//!
//! The data set is published as a zip archive or a folder with one JSON file a conversation, and also as one
//! JSON file, a list whose items nest the sessions under `conversation`. All forms give the same pools.
//!
//! Maharana et al., "Evaluating Very Long-Term Conversational Memory of LLM Agents", 2024.

mod evidence;
mod files;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::evidence::turn_ids;
use self::files::Source;
use super::calendar::Moment;
use super::{Candidate, Pool, Vectors};
use crate::error::{Error, Result};

/// Reads all pools of the data set at `path`: a zip archive, a folder, or a JSON file.
///
/// Pools are called `q0`, `q1`, … by the number of their question in the whole data set, candidates
/// `26/D1:3`: turn 3 of session 1 of conversation 26.
///
/// # Errors
/// A file that cannot be read, holds no conversation, or lacks a field: named with the conversation.
pub fn pools(path: impl AsRef<Path>) -> Result<Vec<Pool>> {
    let path = path.as_ref();
    let mut pools = Vec::new();
    let mut questions = 0;
    for source in files::sources(path)? {
        let fault = |message: String| Error::file(path, source.within(&message));
        for (name, fields) in conversations(&source).map_err(fault)? {
            let at = |message: String| fault(format!("conversation {name}: {message}"));
            let conversation = Conversation::read(&name, &fields).map_err(at)?;
            conversation.add_pools(&mut pools, &mut questions).map_err(at)?;
        }
    }
    if pools.is_empty() {
        return Err(Error::file(path, "holds no questions of LoCoMo's categories 1 to 4"));
    }
    Ok(pools)
}

/// A JSON object, its values not yet read.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The conversations of one file, with their names: the file's own, or those of a list.
fn conversations(source: &Source) -> Result<Vec<(String, Fields<'_>)>, String> {
    let text = source.text.trim_start_matches('\u{feff}').trim_start();
    if !text.starts_with('[') {
        let fields: Fields = parse(text)?;
        return Ok(vec![(source.name.clone(), fields)]);
    }
    let items: Vec<Fields> = parse(text)?;
    items.into_iter().enumerate().map(|(number, fields)| Ok((item_name(number, &fields)?, fields))).collect()
}

/// The name of item `number` of a list: `26` for a `sample_id` of `conv-26`.
fn item_name(number: usize, fields: &Fields) -> Result<String, String> {
    let Some(name) = fields.get("sample_id") else { return Ok(number.to_string()) };
    let name: String = parse(name.get()).map_err(|error| format!("\"sample_id\": {error}"))?;
    Ok(name.trim_start_matches("conv-").to_owned())
}

/// One conversation and the questions about it.
struct Conversation {
    turns: Vec<Arc<Candidate>>,
    questions: Vec<Question>,
    name: String,
}

/// One utterance, as published.
#[derive(Deserialize)]
struct Turn {
    speaker: String,
    dia_id: String,
    text: String,
    /// What is to be seen on the picture shared.
    blip_caption: Option<String>,
}

/// One question, as published; its answer does not matter here.
#[derive(Deserialize)]
struct Question {
    question: String,
    category: u8,
    #[serde(default)]
    evidence: Vec<String>,
}

impl Conversation {
    fn read(name: &str, fields: &Fields) -> Result<Self, String> {
        let questions = fields.get("qa").ok_or("has no \"qa\"; is this LoCoMo's data?")?;
        let questions = parse(questions.get()).map_err(|error| format!("\"qa\": {error}"))?;
        let nested: Fields = match fields.get("conversation") {
            Some(nested) => parse(nested.get()).map_err(|error| format!("\"conversation\": {error}"))?,
            None => BTreeMap::new(),
        };
        let fields = if nested.is_empty() { fields } else { &nested };
        let mut turns = Vec::new();
        for (session, list) in sessions(fields) {
            let key = format!("session_{session}");
            let date_key = format!("{key}_date_time");
            let date = fields.get(&date_key).ok_or_else(|| format!("has \"{key}\" and no \"{date_key}\""))?;
            let date: String = parse(date.get()).map_err(|error| format!("\"{date_key}\": {error}"))?;
            let list: Vec<Turn> = parse(list.get()).map_err(|error| format!("\"{key}\": {error}"))?;
            turns.extend(list.into_iter().map(|turn| Arc::new(turn.memory(name, session, &date))));
        }
        Ok(Self { turns, questions, name: name.to_owned() })
    }

    /// Adds a pool for each question that has an answer; `questions` counts all of them.
    fn add_pools(self, pools: &mut Vec<Pool>, questions: &mut usize) -> Result<(), String> {
        let ids: HashSet<&str> = self.turns.iter().filter_map(|turn| turn.id.as_deref()).collect();
        if ids.len() < self.turns.len() {
            return Err("two turns have one \"dia_id\"".into());
        }
        for (number, question) in self.questions.into_iter().enumerate() {
            let id = format!("q{questions}");
            *questions += 1;
            let category = match question.category {
                1 => "multi-hop",
                2 => "temporal",
                3 => "open-domain",
                4 => "single-hop",
                5 => continue,
                other => {
                    return Err(format!("question {number} has category {other}, and LoCoMo has 1 to 5"));
                }
            };
            // Some evidence names turns that the conversation does not have; no selection could find them.
            let gold = turn_ids(&question.evidence).into_iter().map(|turn| format!("{}/{turn}", self.name));
            pools.push(Pool {
                id,
                query: Some(question.question),
                candidates: self.turns.clone(),
                vectors: Vectors::None,
                gold: gold.filter(|id| ids.contains(id.as_str())).collect(),
                category: Some(category.to_owned()),
            });
        }
        Ok(())
    }
}

impl Turn {
    fn memory(&self, conversation: &str, session: u32, date: &str) -> Candidate {
        let mut text = format!("{} ({date}): {}", self.speaker, self.text.trim());
        if let Some(caption) = &self.blip_caption {
            text += &format!(" and shared {}.", caption.trim());
        }
        Candidate {
            id: Some(format!("{conversation}/{}", self.dia_id)),
            text: Some(text),
            timestamp: Some(Moment::parse(date).map_or_else(|| date.to_owned(), |moment| moment.iso())),
            session: Some(session.to_string()),
        }
    }
}

/// The sessions that have turns, by number. Dates of sessions without turns are among the fields too.
fn sessions<'a>(fields: &Fields<'a>) -> BTreeMap<u32, &'a RawValue> {
    let number = |key: &str| key.strip_prefix("session_")?.parse::<u32>().ok();
    fields.iter().filter_map(|(key, list)| Some((number(key)?, *list))).collect()
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}
