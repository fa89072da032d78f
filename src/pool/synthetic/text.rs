//! Texts of a planned pool: turns of a conversation, and a question.
//!
//! A turn's length is drawn in words, and sentences are added until it has that length. The words are common
//! ones, of 1.29 XLM-R word pieces on average with punctuation, so that question and turn together have as
//! many pieces as LoCoMo's: 60.6 in the mean, 57 in the median, 96 in the 95th percentile.

use std::collections::HashSet;

use super::plan::{Category, Fact, Memory, Plan, SESSIONS};
use super::random::Random;
use super::words::{
    FILLERS, NAMES, OPEN_QUESTIONS, OPENERS, PHOTOS, QUESTIONS, REACTIONS, REMARKS, SET_QUESTIONS,
    TIME_QUESTIONS, TIMES, TOPICS,
};
use crate::pool::calendar::Moment;

/// Words of a turn without its speaker and date: (thousandths of turns, words), linear in between.
const LENGTHS: [(usize, usize); 9] =
    [(0, 2), (10, 4), (50, 8), (250, 16), (500, 24), (750, 34), (950, 52), (990, 65), (1000, 88)];

/// The texts of a plan.
pub struct Texts {
    pub question: String,
    /// One a memory, in the plan's order, all different.
    pub turns: Vec<String>,
    /// The beginning of each session.
    pub sessions: Vec<Moment>,
}

/// Writes the texts of `plan`.
pub fn write(plan: &Plan, random: &mut Random) -> Texts {
    let names = random.permutation(NAMES.len());
    let speakers = [NAMES[names[0]], NAMES[names[1]]];
    let sessions = sessions(random);
    let question = question(plan, speakers[plan.subject], random);
    let mut seen = HashSet::with_capacity(plan.memories.len());
    let turns = plan.memories.iter().map(|memory| {
        let mut turn = Turn::begin(memory, &plan.facts[memory.fact], speakers, &sessions[memory.session]);
        turn.tell(random);
        while seen.contains(&turn.text) {
            turn.lengthen(random);
        }
        seen.insert(turn.text.clone());
        turn.text
    });
    let turns = turns.collect();
    Texts { question, turns, sessions }
}

/// Sessions some days apart, between eight in the morning and ten at night.
fn sessions(random: &mut Random) -> Vec<Moment> {
    let (year, month) = (random.between(2021, 2024), random.between(1, 12));
    let mut moment = Moment { year, month, day: random.between(1, 28), hour: 0, minute: 0 };
    let mut next = || {
        moment = moment.later(random.between(2, 18));
        Moment { hour: random.between(8, 21), minute: random.below(60), ..moment }
    };
    (0..SESSIONS).map(|_| next()).collect()
}

fn question(plan: &Plan, name: &str, random: &mut Random) -> String {
    let form = match plan.category {
        Category::SingleHop => random.pick(&QUESTIONS),
        Category::MultiHop => random.pick(&SET_QUESTIONS),
        Category::Temporal => random.pick(&TIME_QUESTIONS),
        Category::OpenDomain => random.pick(&OPEN_QUESTIONS),
    };
    // A plan has at least two facts.
    form.replace("{name}", name)
        .replace("{thing}", plan.facts[0].thing())
        .replace("{other}", plan.facts[1].thing())
}

impl Fact {
    fn thing(&self) -> &'static str {
        TOPICS[self.words].things[self.thing]
    }

    fn deed(&self) -> &'static str {
        TOPICS[self.words].deeds[self.deed]
    }

    fn setting(&self) -> &'static str {
        TOPICS[self.words].settings[self.setting]
    }
}

/// A turn while it is being written.
struct Turn<'a> {
    memory: &'a Memory,
    fact: &'a Fact,
    /// The other speaker.
    other: &'static str,
    text: String,
    /// Words it may still get.
    left: usize,
    /// Bit i: it has filler i.
    used: u32,
}

impl<'a> Turn<'a> {
    fn begin(memory: &'a Memory, fact: &'a Fact, speakers: [&'static str; 2], session: &Moment) -> Self {
        let text = format!("{} ({session}):", speakers[memory.speaker]);
        Self { memory, fact, other: speakers[1 - memory.speaker], text, left: 0, used: 0 }
    }

    /// Writes the whole turn.
    fn tell(&mut self, random: &mut Random) {
        self.left = length(random);
        let stated = self.memory.strength == 1.0;
        if stated {
            self.left = self.left.max(8);
        }
        if self.left < 8 {
            self.add(random.pick(&REACTIONS));
        } else {
            if self.left > 16 && random.chance(60) {
                self.add(random.pick(&OPENERS));
            }
            if stated || random.chance(40) {
                self.state(random);
            } else {
                self.add(random.pick(&REMARKS));
            }
        }
        let photo = self.left >= 9 && random.chance(20);
        if photo {
            self.left -= 9;
        }
        while self.lengthen_within(random) {}
        if photo {
            self.add(random.pick(&PHOTOS));
        }
    }

    /// Says in full what happened, with as much of when and where as fits.
    fn state(&mut self, random: &mut Random) {
        let mut sentence = format!("I {} {}", self.fact.deed(), self.fact.thing());
        for detail in [self.fact.setting(), random.pick(&TIMES)] {
            if words(&sentence) + words(detail) <= self.left {
                sentence = format!("{sentence} {detail}");
            }
        }
        self.add(&(sentence + "."));
    }

    /// Adds a sentence that fits; false where none does.
    fn lengthen_within(&mut self, random: &mut Random) -> bool {
        let used = self.used;
        let fits = |(filler, words): &(usize, usize)| *words <= self.left && used & 1 << filler == 0;
        let lengths = FILLERS.iter().map(|filler| words(filler));
        let fitting: Vec<usize> = lengths.enumerate().filter(fits).map(|(filler, _)| filler).collect();
        if fitting.is_empty() {
            return false;
        }
        if self.left >= 14 && random.chance(25) {
            self.add(random.pick(&REMARKS));
        } else {
            let filler = fitting[random.below(fitting.len())];
            self.used |= 1 << filler;
            self.add(FILLERS[filler]);
        }
        true
    }

    /// Adds a sentence, whatever the length.
    fn lengthen(&mut self, random: &mut Random) {
        self.add(random.pick(&FILLERS));
    }

    fn add(&mut self, form: &str) {
        let thing = self.fact.thing();
        let sentence = form
            .replace("{name}", self.other)
            .replace("{thing}", thing)
            .replace("{Thing}", &capitalized(thing))
            .replace("{setting}", self.fact.setting());
        self.left = self.left.saturating_sub(words(&sentence));
        self.text.push(' ');
        self.text.push_str(&sentence);
    }
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

/// Draws a turn's length in words.
fn length(random: &mut Random) -> usize {
    let at = random.below(1000);
    let above = LENGTHS.iter().position(|(share, _)| *share > at).unwrap_or(LENGTHS.len() - 1);
    let ((from, least), (to, most)) = (LENGTHS[above - 1], LENGTHS[above]);
    least + (most - least) * (at - from) / (to - from)
}
