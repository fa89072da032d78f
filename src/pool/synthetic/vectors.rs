//! Embeddings of a planned pool.
//!
//! Every text is a sum of directions drawn at random, which in high dimension are close to orthogonal: the
//! conversation's, the speaker's, the topic's, the session's, the fact's, and noise of its own. The shares
//! below are squared lengths. They were set so that cosines with the question, and the pursuit's steps to its
//! optimum, are like those of 1,540 LoCoMo pools.

use super::plan::{Plan, SESSIONS, TOPICS_OF_POOL};
use super::random::Random;

/// Shares of a memory's embedding.
const MEMORY: Shares = Shares { conversation: 0.42, speaker: 0.08, topic: 0.12, fact: 0.20, noise: 0.12 };
/// Share of the session, which only memories have.
const SESSION: f32 = 0.06;
/// Shares of a question's embedding.
const QUESTION: Shares = Shares { conversation: 0.34, speaker: 0.06, topic: 0.10, fact: 0.24, noise: 0.26 };

struct Shares {
    conversation: f32,
    speaker: f32,
    topic: f32,
    fact: f32,
    noise: f32,
}

/// Embeddings of unit length: the question's `[dimension]` and the memories' `[P, dimension]`, in the plan's
/// order.
pub fn embed(plan: &Plan, dimension: usize, random: &mut Random) -> (Vec<f32>, Vec<f32>) {
    let mut directions =
        |count: usize| -> Vec<Vec<f32>> { (0..count).map(|_| noise(1.0, dimension, random)).collect() };
    let conversation = directions(1).remove(0);
    let (speakers, topics, sessions) = (directions(2), directions(TOPICS_OF_POOL), directions(SESSIONS));
    let facts = directions(plan.facts.len());

    let mut question = noise(QUESTION.noise, dimension, random);
    add(&conversation, QUESTION.conversation.sqrt(), &mut question);
    add(&speakers[plan.subject], QUESTION.speaker.sqrt(), &mut question);
    // A convex combination of fact directions, and of their topics', scaled to its share.
    let mut topic_needs = [0.0f32; TOPICS_OF_POOL];
    for (fact, need) in plan.facts.iter().zip(&plan.needs) {
        topic_needs[fact.topic] += need;
    }
    let scale = (QUESTION.topic / squares(&topic_needs)).sqrt();
    for (topic, need) in topics.iter().zip(topic_needs) {
        add(topic, scale * need, &mut question);
    }
    let scale = (QUESTION.fact / squares(&plan.needs)).sqrt();
    for (fact, need) in facts.iter().zip(&plan.needs) {
        add(fact, scale * need, &mut question);
    }
    normalize(&mut question);

    let mut memories = vec![0.0; plan.memories.len() * dimension];
    for (memory, row) in plan.memories.iter().zip(memories.chunks_exact_mut(dimension)) {
        let fact = MEMORY.fact * memory.strength;
        random.add_noise(deviation(MEMORY.noise + MEMORY.fact - fact, dimension), row);
        add(&conversation, MEMORY.conversation.sqrt(), row);
        add(&speakers[memory.speaker], MEMORY.speaker.sqrt(), row);
        add(&topics[plan.facts[memory.fact].topic], MEMORY.topic.sqrt(), row);
        add(&sessions[memory.session], SESSION.sqrt(), row);
        add(&facts[memory.fact], fact.sqrt(), row);
        normalize(row);
    }
    (question, memories)
}

/// A random direction with an expected squared length of `share`.
fn noise(share: f32, dimension: usize, random: &mut Random) -> Vec<f32> {
    let mut vector = vec![0.0; dimension];
    random.add_noise(deviation(share, dimension), &mut vector);
    vector
}

/// Standard deviation of each element of a vector with an expected squared length of `share`.
fn deviation(share: f32, dimension: usize) -> f32 {
    (share / dimension as f32).sqrt()
}

fn add(direction: &[f32], factor: f32, vector: &mut [f32]) {
    for (element, step) in vector.iter_mut().zip(direction) {
        *element += factor * step;
    }
}

/// Sum of squares, from the first to the last: its order is part of what makes vectors the same everywhere.
fn squares(vector: &[f32]) -> f32 {
    vector.iter().map(|element| element * element).sum()
}

fn normalize(vector: &mut [f32]) {
    let norm =
        vector.iter().map(|element| f64::from(*element) * f64::from(*element)).sum::<f64>().sqrt() as f32;
    if norm == 0.0 {
        // All draws hit their mean: next to impossible, and still a direction.
        vector[0] = 1.0;
        return;
    }
    vector.iter_mut().for_each(|element| *element /= norm);
}
