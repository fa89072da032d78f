//! What one line of a pool file says, before files are opened and rules are checked.
//!
//! The readers below are written out, where a derive would do, for one reason: [`Place`] follows the reading,
//! so that a fault deep inside a long line can be told with its pool, its candidate and its field. Vectors
//! stay raw text until [`append_vector`](super::numbers::append_vector) turns them into numbers, directly in the
//! pool's matrix.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::numbers::kind;
use crate::pool::Candidate;

/// One line: a pool as written.
#[derive(Default)]
pub struct PoolRecord<'a> {
    pub id: Option<String>,
    pub query: Option<String>,
    pub query_embedding: Option<&'a RawValue>,
    pub query_row: Option<u64>,
    pub candidates: Option<Vec<CandidateRecord<'a>>>,
    pub rows: Option<Vec<u64>>,
    pub embeddings: Option<String>,
    pub memories: Option<String>,
    pub gold: Option<Vec<Label>>,
    pub gold_rows: Option<Vec<u64>>,
    pub category: Option<String>,
}

/// One entry of `candidates`, or one line of a memory table.
#[derive(Default)]
pub struct CandidateRecord<'a> {
    pub candidate: Candidate,
    pub embedding: Option<&'a RawValue>,
    pub row: Option<u64>,
}

/// How far the reading of a line came; after a fault: where it is.
#[derive(Debug, Default)]
pub struct Place {
    /// The pool's id, once read.
    pub pool: Option<String>,
    /// 0-based index of the candidate being read.
    pub index: Option<usize>,
    /// That candidate's id, once read.
    pub candidate: Option<String>,
    /// The field being read.
    pub field: Option<&'static str>,
}

/// Reads the one JSON object that `line` must be.
///
/// # Errors
/// The line is not one JSON object, or a field has a value of the wrong kind; `place` then says where.
pub fn read_pool<'a>(line: &'a str, place: &mut Place) -> serde_json::Result<PoolRecord<'a>> {
    read_object(line, PoolReader { place })
}

/// Reads one line of a memory table, whose fields are a candidate's.
///
/// # Errors
/// As for [`read_pool`].
pub fn read_memory(line: &str, place: &mut Place) -> serde_json::Result<Candidate> {
    Ok(read_object(line, CandidateReader { place })?.candidate)
}

fn read_object<'a, S: DeserializeSeed<'a>>(line: &'a str, reader: S) -> serde_json::Result<S::Value> {
    let mut json = serde_json::Deserializer::from_str(line);
    let value = reader.deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

/// A string, or a number kept as its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Label(pub String);

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        match text.as_bytes()[0] {
            b'"' => serde_json::from_str(text).map(Label).map_err(D::Error::custom),
            b'-' | b'0'..=b'9' => Ok(Label(text.to_owned())),
            _ => Err(D::Error::custom(format_args!("expected a string or a number, found {}", kind(text)))),
        }
    }
}

/// Reads a pool object, telling `place`.
struct PoolReader<'p> {
    place: &'p mut Place,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum PoolField {
    Id,
    Query,
    QueryEmbedding,
    QueryRow,
    Candidates,
    Rows,
    Embeddings,
    Memories,
    Gold,
    GoldRows,
    Category,
    #[serde(other)]
    Unknown,
}

impl<'de> DeserializeSeed<'de> for PoolReader<'_> {
    type Value = PoolRecord<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PoolReader<'_> {
    type Value = PoolRecord<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a pool, as one object on one line")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { place } = self;
        let mut pool = PoolRecord::default();
        while let Some(field) = map.next_key()? {
            let mut value = Fields { map: &mut map, place };
            match field {
                PoolField::Id => {
                    pool.id = value.label("id")?;
                    place.pool.clone_from(&pool.id);
                }
                PoolField::Query => pool.query = value.get("query")?,
                PoolField::QueryEmbedding => pool.query_embedding = value.get("query_embedding")?,
                PoolField::QueryRow => pool.query_row = value.get("query_row")?,
                PoolField::Candidates => {
                    place.field = Some("candidates");
                    pool.candidates = map.next_value_seed(CandidatesReader { place })?;
                    place.field = None;
                }
                PoolField::Rows => pool.rows = value.get("rows")?,
                PoolField::Embeddings => pool.embeddings = value.get("embeddings")?,
                PoolField::Memories => pool.memories = value.get("memories")?,
                PoolField::Gold => pool.gold = value.get("gold")?,
                PoolField::GoldRows => pool.gold_rows = value.get("gold_rows")?,
                PoolField::Category => pool.category = value.label("category")?,
                PoolField::Unknown => value.skip()?,
            }
        }
        Ok(pool)
    }
}

/// Reads the list of candidates, or `null`.
struct CandidatesReader<'p> {
    place: &'p mut Place,
}

impl<'de> DeserializeSeed<'de> for CandidatesReader<'_> {
    type Value = Option<Vec<CandidateRecord<'de>>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CandidatesReader<'_> {
    type Value = Option<Vec<CandidateRecord<'de>>>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a list of candidates")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Self { place } = self;
        let mut candidates = Vec::new();
        place.index = Some(0);
        while let Some(candidate) = list.next_element_seed(CandidateReader { place })? {
            candidates.push(candidate);
            place.index = Some(candidates.len());
            (place.candidate, place.field) = (None, Some("candidates"));
        }
        place.index = None;
        Ok(Some(candidates))
    }
}

/// Reads one candidate, telling `place`.
struct CandidateReader<'p> {
    place: &'p mut Place,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum CandidateField {
    Id,
    Text,
    Timestamp,
    Session,
    Embedding,
    Row,
    #[serde(other)]
    Unknown,
}

impl<'de> DeserializeSeed<'de> for CandidateReader<'_> {
    type Value = CandidateRecord<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for CandidateReader<'_> {
    type Value = CandidateRecord<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("one object a candidate")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { place } = self;
        let mut record = CandidateRecord::default();
        while let Some(field) = map.next_key()? {
            let mut value = Fields { map: &mut map, place };
            match field {
                CandidateField::Id => {
                    record.candidate.id = value.label("id")?;
                    place.candidate.clone_from(&record.candidate.id);
                }
                CandidateField::Text => record.candidate.text = value.get("text")?,
                CandidateField::Timestamp => record.candidate.timestamp = value.label("timestamp")?,
                CandidateField::Session => record.candidate.session = value.label("session")?,
                CandidateField::Embedding => record.embedding = value.get("embedding")?,
                CandidateField::Row => record.row = value.get("row")?,
                CandidateField::Unknown => value.skip()?,
            }
        }
        Ok(record)
    }
}

/// The value that follows a key; `null` is an absent field.
struct Fields<'m, 'p, A> {
    map: &'m mut A,
    place: &'p mut Place,
}

impl<'de, A: MapAccess<'de>> Fields<'_, '_, A> {
    fn get<T: Deserialize<'de>>(&mut self, field: &'static str) -> Result<Option<T>, A::Error> {
        self.place.field = Some(field);
        let value = self.map.next_value()?;
        self.place.field = None;
        Ok(value)
    }

    fn label(&mut self, field: &'static str) -> Result<Option<String>, A::Error> {
        Ok(self.get::<Label>(field)?.map(|label| label.0))
    }

    fn skip(&mut self) -> Result<(), A::Error> {
        self.map.next_value::<serde::de::IgnoredAny>().map(drop)
    }
}
