//! The first look of several questions at once: a memory that many of them name is loaded once for all their queries.

use super::corpus::Question;
use super::tile::Fetch;
use super::{Normalize, Rows, exact, slots};

/// Questions looked at together: the vectors of so many stay in a second-level cache at common dimensions.
pub(super) const QUESTIONS: usize = 16;
/// All named memories meet all queries, asked for or not; where they do more than this many times the work that was
/// asked for, every question looks by itself.
const WASTE: usize = 4;
/// The place of a memory that no question has named.
const NOWHERE: u32 = u32::MAX;

/// Dot products of a few questions' memories with their queries. Buffers are kept from block to block.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The queries in float32, `[questions, d]`.
    vectors: Vec<f32>,
    /// Memories that the questions name, each once, and where each memory of the store stands among them.
    named: Vec<u32>,
    place: Vec<u32>,
    /// `[questions, named]`.
    dots: Vec<f32>,
    /// Question by question, the dot products of its rows in their order, and where each question's begin.
    sorted: Vec<f32>,
    starts: Vec<usize>,
    gamma: f64,
    wide: Vec<f64>,
    room: Vec<f32>,
}

impl Block {
    /// Takes the dot products of `questions`, where doing so together pays. Questions that cannot be answered get
    /// values that mean nothing: answering them finds that out.
    pub(super) fn look(&mut self, memories: &Rows<'_>, normalize: Normalize, questions: &[Question<'_>]) {
        let d = memories.dimension();
        self.starts.clear();
        let sound = |question: &Question<'_>| {
            question.query.len() == d && question.rows.iter().all(|&row| (row as usize) < memories.len())
        };
        if questions.len() < 2 || !questions.iter().all(sound) {
            return;
        }
        self.place.resize(memories.len(), NOWHERE);
        self.named.clear();
        let mut asked = 0;
        for question in questions {
            asked += question.rows.len();
            for &row in question.rows {
                let place = &mut self.place[row as usize];
                if *place == NOWHERE {
                    *place = self.named.len() as u32;
                    self.named.push(row);
                }
            }
        }
        if self.named.len() * questions.len() <= WASTE * asked {
            self.take(memories, normalize, questions);
        }
        self.named.iter().for_each(|&row| self.place[row as usize] = NOWHERE);
    }

    fn take(&mut self, memories: &Rows<'_>, normalize: Normalize, questions: &[Question<'_>]) {
        let (d, named) = (memories.dimension(), self.named.len());
        self.vectors.resize(questions.len() * d, 0.0);
        self.wide.resize(d, 0.0);
        self.room.resize(self.room.len().max(d), 0.0);
        for (question, vector) in questions.iter().zip(self.vectors.chunks_exact_mut(d)) {
            let square = exact::square(question.query, &mut self.room[..d], &mut self.wide);
            if normalize == Normalize::Yes {
                let factor = 1.0 / square.sqrt();
                self.wide.iter_mut().for_each(|value| *value *= factor);
            }
            slots::narrow(&self.wide, vector);
        }
        self.dots.resize(questions.len() * named, 0.0);
        let Ok(rows) = memories.pick(&self.named) else { return };
        let every: Vec<u32> = (0..named as u32).collect();
        let (which, vectors, upto) = (&every[..], &self.vectors[..], questions.len());
        let (dots, squares, cold, room) = (&mut self.dots[..], None, true, &mut self.room);
        self.gamma =
            Fetch { rows: &rows, which, levels: &[], vectors, upto, dots, squares, cold, room }.run();
        self.sorted.clear();
        self.starts.push(0);
        for (number, question) in questions.iter().enumerate() {
            let dots = &self.dots[number * named..][..named];
            self.sorted.extend(question.rows.iter().map(|&row| dots[self.place[row as usize] as usize]));
            self.starts.push(self.sorted.len());
        }
    }

    /// What was taken for question `number` of the block: the dot products of its rows, and their relative error.
    pub(super) fn with_query(&self, number: usize) -> Option<(&[f32], f64)> {
        let (from, to) = (*self.starts.get(number)?, *self.starts.get(number + 1)?);
        Some((&self.sorted[from..to], self.gamma))
    }
}
