//! What a generated pool is about: facts, who says what when, and what the question needs.
//!
//! The plan follows Assumption B.1 of the MemPursuit paper: the question needs a few facts, the memories about
//! a fact form a cluster, clusters are disjoint. Around them lie the clusters of facts nobody asks about, half
//! of them on the question's own topics.

use super::random::Random;
use super::words::TOPICS;

/// Conversations have two speakers and this many sessions.
pub const SESSIONS: usize = 10;
/// Topics a conversation touches, of those there are words for.
pub const TOPICS_OF_POOL: usize = 8;
/// Memories of a fact that nobody asks about.
const MEMORIES_OF_OTHER_FACT: usize = 4;
/// Share of the other facts that are on the question's topics, in percent.
const RELATED: usize = 50;

/// What kind of question it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    SingleHop,
    MultiHop,
    Temporal,
    OpenDomain,
}

/// Something that happened, told by the memories of one cluster.
#[derive(Debug, Clone, Copy)]
pub struct Fact {
    /// Number among the conversation's topics.
    pub topic: usize,
    /// Index into [`TOPICS`].
    pub words: usize,
    pub thing: usize,
    pub deed: usize,
    pub setting: usize,
}

/// One turn of a conversation.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub fact: usize,
    /// 0 or 1.
    pub speaker: usize,
    pub session: usize,
    /// How much of it is about its fact, from 0 to 1; the rest is its own.
    pub strength: f32,
    /// It answers the question (in part).
    pub gold: bool,
}

/// A whole pool, not yet in retrieval order.
#[derive(Debug)]
pub struct Plan {
    pub category: Category,
    /// The speaker the question is about.
    pub subject: usize,
    /// All facts, the question's first.
    pub facts: Vec<Fact>,
    /// Share of each of the question's facts in the question, summing to 1.
    pub needs: Vec<f32>,
    pub memories: Vec<Memory>,
}

impl Plan {
    /// Draws a plan with `candidates` memories.
    pub fn draw(candidates: usize, random: &mut Random) -> Self {
        // The shares of LoCoMo's categories, in percent.
        let (category, needed) = match random.below(100) {
            0..55 => (Category::SingleHop, random.between(2, 4)),
            55..76 => (Category::Temporal, random.between(2, 4)),
            76..94 => (Category::MultiHop, random.between(4, 6)),
            _ => (Category::OpenDomain, random.between(4, 6)),
        };
        let shares: Vec<f32> = (0..needed).map(|_| 1.0 + random.unit()).collect();
        let sum: f32 = shares.iter().sum();
        let mut plan = Self {
            category,
            subject: random.below(2),
            facts: Vec::new(),
            needs: shares.iter().map(|share| share / sum).collect(),
            memories: Vec::with_capacity(candidates),
        };
        let mut catalogue = Catalogue::draw(random);
        let question_topics = random.between(1, needed.min(3));
        for fact in 0..needed {
            plan.facts.push(catalogue.next(fact % question_topics, random));
        }
        plan.add_clusters(candidates, random);
        while plan.memories.len() < candidates {
            let topic = if random.chance(RELATED) {
                random.below(question_topics)
            } else {
                random.below(TOPICS_OF_POOL)
            };
            plan.facts.push(catalogue.next(topic, random));
            for _ in 0..MEMORIES_OF_OTHER_FACT.min(candidates - plan.memories.len()) {
                let (speaker, strength) = (random.below(2), 0.5 + 0.5 * random.unit());
                plan.add(plan.facts.len() - 1, speaker, strength, false, random);
            }
        }
        plan
    }

    /// The question's clusters: first one full statement of each fact, then near copies, some of them as full.
    fn add_clusters(&mut self, candidates: usize, random: &mut Random) {
        let needed = self.needs.len();
        let size = 12 + random.below(6) + random.below(6);
        for copy in 0..size.min(candidates) {
            let speaker = if random.chance(80) { self.subject } else { 1 - self.subject };
            let gold = copy < needed || (copy < 2 * needed && random.chance(40));
            let strength = if gold { 1.0 } else { 0.5 + 0.45 * random.unit() };
            self.add(copy % needed, speaker, strength, gold, random);
        }
    }

    fn add(&mut self, fact: usize, speaker: usize, strength: f32, gold: bool, random: &mut Random) {
        let session = random.below(SESSIONS);
        self.memories.push(Memory { fact, speaker, session, strength, gold });
    }
}

/// Gives out facts, none of them twice before a topic has no more.
struct Catalogue {
    /// Index into [`TOPICS`] of each of the conversation's topics.
    topics: Vec<usize>,
    /// For each topic a random order of its things and deeds, and how many are given out.
    orders: Vec<(Vec<usize>, usize)>,
}

impl Catalogue {
    fn draw(random: &mut Random) -> Self {
        let mut topics = random.permutation(TOPICS.len());
        topics.truncate(TOPICS_OF_POOL);
        let pairs = |topic: &usize| TOPICS[*topic].things.len() * TOPICS[*topic].deeds.len();
        let orders = topics.iter().map(|topic| (random.permutation(pairs(topic)), 0)).collect();
        Self { topics, orders }
    }

    fn next(&mut self, topic: usize, random: &mut Random) -> Fact {
        let words = self.topics[topic];
        let (order, given) = &mut self.orders[topic];
        let pair = order[*given % order.len()];
        *given += 1;
        let things = TOPICS[words].things.len();
        let setting = random.below(TOPICS[words].settings.len());
        Fact { topic, words, thing: pair % things, deed: pair / things, setting }
    }
}
