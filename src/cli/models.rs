//! `models`: the known models, what they are, and fetching them.

use clap::{Args, Subcommand};

use super::output::Output;
use super::progress;
use crate::error::{Error, Result};
use crate::policy::SELECTORS;
use crate::weights::{Card, Hub, Kind, card, cards};

#[derive(Debug, Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fetch a model's files into the local cache
    Pull {
        /// A known name, or a hub id org/name[@revision]
        name: String,
        /// Use only what is in the local cache (also HF_HUB_OFFLINE=1)
        #[arg(long)]
        offline: bool,
    },
    /// One model: prompt, limits, files, licence
    Show {
        /// A known name
        name: String,
    },
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    match flags.command {
        None => Output::stdout().write(&list()),
        Some(Command::Show { name }) => Output::stdout().write(&show(known(&name)?)),
        Some(Command::Pull { name, offline }) => pull(&name, offline),
    }
}

fn known(name: &str) -> Result<&'static Card> {
    card(name).ok_or_else(|| {
        let names: Vec<&str> = cards().iter().map(|card| card.name).collect();
        Error::Usage(format!("unknown model {name:?}; known are {}", names.join(", ")))
    })
}

fn kind(card: &Card) -> &'static str {
    match card.kind {
        Kind::CrossEncoder => "cross-encoder",
        Kind::LlmScorer => "LLM scorer",
    }
}

fn list() -> String {
    let mut text = String::from("Selectors (embeddings, no weights)\n");
    for selector in SELECTORS {
        text += &format!("  {:<14} {}\n", selector.name, selector.about);
    }
    text += "\nRerankers (texts; weights from the hub)\n";
    for card in cards() {
        let millions = card.parameters / 1_000_000;
        text += &format!(
            "  {:<14} {:<14} {:>5} M parameters  up to {:>6} tokens  {:<12} {}\n",
            card.name,
            kind(card),
            millions,
            card.max_length,
            card.licence,
            card.hub
        );
    }
    text
}

fn show(card: &Card) -> String {
    let mut text = format!(
        "{}\n  kind          {}\n  hub id        {} (revision {})\n  licence       {}, as published\n  architecture  {}\n  \
         parameters    {} M\n  limit         {} tokens\n  files         {}\n",
        card.name,
        kind(card),
        card.hub,
        card.revision,
        card.licence,
        card.architecture,
        card.parameters / 1_000_000,
        card.max_length,
        card.files.join(", ")
    );
    if let Some(prompt) = &card.prompt {
        text += &format!(
            "\nPrompt (hash {} with the default instruct: {})\n{}{}{}\n",
            prompt.hash(&prompt.instruct),
            prompt.instruct,
            prompt.prefix,
            prompt.body,
            prompt.suffix
        );
    }
    text
}

fn pull(name: &str, offline: bool) -> Result<()> {
    let (id, revision) = match card(name) {
        Some(card) => (card.hub.as_str(), card.revision.as_str()),
        None => name.split_once('@').unwrap_or((name, "main")),
    };
    if id.split('/').filter(|part| !part.is_empty()).count() != 2 {
        known(name)?;
    }
    let mut hub = Hub::default();
    hub.offline |= offline;
    let files = hub.fetch(id, revision, &progress::say)?;
    let mut text = String::new();
    for path in [&files.config, &files.tokenizer].into_iter().chain(&files.weights) {
        text += &format!("{}\n", path.display());
    }
    if let Some(commit) = &files.revision {
        progress::say(&format!("{id} at commit {commit}"));
    }
    Output::stdout().write(&text)
}
