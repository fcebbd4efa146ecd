//! The words that describe one direction of a path, each with its value.
//!
//! Does not know: whether they are in a path, an uplink, an event, or on a command line.

use std::time::Duration;

use model::duration;
use model::units::{BitRate, Bytes};

use super::problem::Problem;
use super::source::{Entry, Table, Value};
use super::{LinkSettings, Loss, Policer, Queue, Target, quantity};

/// All words, as they are written.
pub(super) const WORDS: [&str; 15] = [
    "delay",
    "jitter",
    "rate",
    "queue",
    "policer",
    "loss",
    "reorder",
    "reorder_by",
    "duplicate",
    "corrupt",
    "corrupt_silent",
    "cross_traffic",
    "mtu_black_hole",
    "down",
    "withdrawn",
];

const NO_RATE: &str = "leave it out for no bottleneck, or write down = true to let nothing pass";
const NO_POLICER: &str = "leave it out for no policer, or write down = true to let nothing pass";
const NO_TRAFFIC: &str = "leave it out, or write \"none\"";

/// One word with its value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields of LinkSettings, by name")]
pub enum Word {
    Delay(Duration),
    Jitter(Duration),
    Rate(Option<BitRate>),
    Queue(Queue),
    Policer(Option<Policer>),
    Loss(Loss),
    Reorder(f64),
    ReorderBy(Duration),
    Duplicate(f64),
    Corrupt(f64),
    CorruptSilent(f64),
    CrossTraffic(Option<BitRate>),
    MtuBlackHole(Option<u16>),
    Down(bool),
    Withdrawn(bool),
}

/// Words for a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The target that changes.
    pub target: Target,
    /// The words and their new values.
    pub words: Vec<Word>,
}

impl Word {
    /// Reads a word.
    pub(super) fn read(entry: &Entry) -> Result<Word, Problem> {
        let none = entry.is_text("none");
        Ok(match entry.key.as_str() {
            "delay" => Word::Delay(quantity::delay(entry)?),
            "jitter" => Word::Jitter(quantity::delay(entry)?),
            "rate" if none => Word::Rate(None),
            "rate" => Word::Rate(Some(quantity::rate(entry, NO_RATE)?)),
            "queue" => Word::Queue(queue(entry)?),
            "policer" if none => Word::Policer(None),
            "policer" => Word::Policer(Some(policer(entry)?)),
            "loss" => Word::Loss(loss(entry)?),
            "reorder" => Word::Reorder(quantity::probability(entry)?),
            "reorder_by" => Word::ReorderBy(quantity::delay(entry)?),
            "duplicate" => Word::Duplicate(quantity::probability(entry)?),
            "corrupt" => Word::Corrupt(quantity::probability(entry)?),
            "corrupt_silent" => Word::CorruptSilent(quantity::probability(entry)?),
            "cross_traffic" if none => Word::CrossTraffic(None),
            "cross_traffic" => Word::CrossTraffic(Some(quantity::rate(entry, NO_TRAFFIC)?)),
            "mtu_black_hole" if none || matches!(entry.value, Value::Truth(false)) => Word::MtuBlackHole(None),
            "mtu_black_hole" => Word::MtuBlackHole(Some(quantity::mtu(entry)?)),
            "down" => Word::Down(entry.truth()?),
            "withdrawn" => Word::Withdrawn(entry.truth()?),
            _ => return Err(entry.unknown(&WORDS, "a direction of a path")),
        })
    }
}

/// `"40MB"`, `"50ms"`, or `"bdp"`, the default.
fn queue(entry: &Entry) -> Result<Queue, Problem> {
    const REMEDY: &str = "write it like \"40MB\", or \"50ms\" of the rate, or \"bdp\"";
    let text = entry.text(REMEDY)?;
    if text == "bdp" {
        return Ok(Queue::Bdp);
    }
    // No unit is both a size and a time.
    match duration::parse(text) {
        Ok(time) if time.is_zero() => Err(entry.problem("queue is zero", REMEDY)),
        Ok(_) => Ok(Queue::Time(quantity::delay(entry)?)),
        Err(_) => match quantity::size(entry) {
            Ok(bytes) => Ok(Queue::Bytes(bytes)),
            Err(problem) => Err(Problem { remedy: REMEDY.to_owned(), ..problem }),
        },
    }
}

/// A rate, or a table with `rate` and `burst`.
fn policer(entry: &Entry) -> Result<Policer, Problem> {
    const REMEDY: &str = "write it like \"500Mbit/s\", or { rate = \"500Mbit/s\", burst = \"1MB\" }, or \"none\"";
    let Value::Table(table) = &entry.value else {
        let rate = quantity::rate(entry, NO_POLICER)?;
        return Ok(Policer { rate, burst: default_burst(rate) });
    };
    table.only(&["rate", "burst"], "a policer")?;
    let rate = table.get("rate").ok_or_else(|| entry.problem("the policer has no rate", REMEDY))?;
    let rate = quantity::rate(rate, NO_POLICER)?;
    let Some(entry) = table.get("burst") else { return Ok(Policer { rate, burst: default_burst(rate) }) };
    let burst = quantity::size(entry)?;
    if quantity::takes_too_long(burst, rate) {
        Err(entry.problem("the burst is more than one hour of the rate", "write a smaller one"))
    } else {
        Ok(Policer { rate, burst })
    }
}

/// The default burst: 10 ms of the rate, but at least two of the largest packets.
fn default_burst(rate: BitRate) -> Bytes {
    const BURST_MIN: u64 = 128 << 10;
    Bytes((rate.bytes_per_second() / 100).max(BURST_MIN))
}

/// A probability, or a table with `every`, `burst` or `list`.
fn loss(entry: &Entry) -> Result<Loss, Problem> {
    match &entry.value {
        Value::Table(table) => pattern(entry, table),
        Value::Text(text) if text == "none" => Ok(Loss::None),
        _ => Ok(match quantity::probability(entry)? {
            0.0 => Loss::None,
            probability => Loss::Random(probability),
        }),
    }
}

fn pattern(entry: &Entry, table: &Table) -> Result<Loss, Problem> {
    const REMEDY: &str = "write { every = 20000 }, { burst = [0.0005, 0.2] } or { list = [17, 400] }";
    const COUNTS: std::ops::RangeInclusive<i128> = 1..=u64::MAX as i128;
    table.only(&["every", "burst", "list"], "loss")?;
    let [word] = table.entries.as_slice() else {
        return Err(entry.problem("loss needs one pattern", REMEDY));
    };
    Ok(match word.key.as_str() {
        "every" => Loss::Every(word.whole(COUNTS)?),
        "burst" => match word.list(REMEDY)? {
            [into, back] => Loss::Burst(quantity::probability(into)?, quantity::probability(back)?),
            _ => return Err(word.problem("burst needs two probabilities: into a burst, and back", REMEDY)),
        },
        _ => {
            let mut list = Vec::new();
            for item in word.list(REMEDY)? {
                list.push(item.whole(COUNTS)?);
            }
            list.sort_unstable();
            list.dedup();
            Loss::List(list)
        }
    })
}

impl Word {
    /// Whether this is the given word of a scenario, or one that must agree with that word.
    pub fn touches(&self, word: &str) -> bool {
        match self {
            Word::Queue(_) => word == "queue",
            Word::CrossTraffic(_) => word == "cross_traffic",
            Word::Jitter(_) | Word::Delay(_) => word == "jitter",
            _ => false,
        }
    }
}

impl LinkSettings {
    /// Sets a word; returns the word that takes the change back.
    pub fn set(&mut self, word: Word) -> Word {
        use std::mem::replace;
        match word {
            Word::Delay(value) => Word::Delay(replace(&mut self.delay, value)),
            Word::Jitter(value) => Word::Jitter(replace(&mut self.jitter, value)),
            Word::Rate(value) => Word::Rate(replace(&mut self.rate, value)),
            Word::Queue(value) => Word::Queue(replace(&mut self.queue, value)),
            Word::Policer(value) => Word::Policer(replace(&mut self.policer, value)),
            Word::Loss(value) => Word::Loss(replace(&mut self.loss, value)),
            Word::Reorder(value) => Word::Reorder(replace(&mut self.reorder, value)),
            Word::ReorderBy(value) => Word::ReorderBy(replace(&mut self.reorder_by, value)),
            Word::Duplicate(value) => Word::Duplicate(replace(&mut self.duplicate, value)),
            Word::Corrupt(value) => Word::Corrupt(replace(&mut self.corrupt, value)),
            Word::CorruptSilent(value) => Word::CorruptSilent(replace(&mut self.corrupt_silent, value)),
            Word::CrossTraffic(value) => Word::CrossTraffic(replace(&mut self.cross_traffic, value)),
            Word::MtuBlackHole(value) => Word::MtuBlackHole(replace(&mut self.mtu_black_hole, value)),
            Word::Down(value) => Word::Down(replace(&mut self.down, value)),
            Word::Withdrawn(value) => Word::Withdrawn(replace(&mut self.withdrawn, value)),
        }
    }
}
