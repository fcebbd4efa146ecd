//! The contents of a page about one transfer or test, from whatever it was read. The page leaves out what is absent.

use model::v1;
use pilot::verdict::Held;

use crate::course::{Course, Facts, Moment};
use crate::format;

/// The outcome, which selects a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Done.
    Good,
    /// In part.
    Part,
    /// Not.
    Bad,
    /// Unknown.
    Plain,
}

impl Tone {
    /// The class in the page's style.
    pub fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Part => "part",
            Tone::Bad => "bad",
            Tone::Plain => "plain",
        }
    }
}

/// A row of the comparison.
#[derive(Clone, Debug, Default)]
pub struct Brief {
    /// How it ended.
    pub state: String,
    /// What arrived.
    pub bytes: Option<f64>,
    /// In so many files.
    pub files: Option<u64>,
    /// It took.
    pub seconds: Option<f64>,
    /// The mean, bit/s.
    pub rate_bit_s: Option<f64>,
    /// Data streams.
    pub streams: Option<u64>,
    /// What held it back.
    pub limited_by: String,
}

/// A TCP stream; times in seconds, rates in bit/s.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Its number.
    pub id: u32,
    /// Beside its number, where that does not say all.
    pub note: &'static str,
    /// From where to where.
    pub addresses: (String, String),
    /// From when to when it was seen.
    pub seen: Option<(f64, f64)>,
    /// Payload.
    pub bytes: f64,
    /// Round trips: the least, the median, the most.
    pub rtt: [Option<f64>; 3],
    /// Congestion windows, segments: the median or the last, and the most.
    pub cwnd: [Option<f64>; 2],
    /// Segment size.
    pub mss_bytes: u64,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Bytes sent, those sent again included, and those.
    pub sent: (f64, f64),
    /// What the kernel thinks that the path delivers.
    pub delivery_bit_s: Option<f64>,
    /// What it was told to send at most.
    pub pace_bit_s: Option<f64>,
    /// Time with something on its way or waiting, and of that with the receive window, and the send buffer, full.
    pub busy: (f64, f64, f64),
    /// The window that the receiver offered last.
    pub window_bytes: u64,
    /// Both ends scale windows.
    pub is_scaled: Option<bool>,
    /// Congestion control.
    pub congestion: String,
    /// Sealed or plain.
    pub payload: String,
}

impl From<&v1::Stream> for Stream {
    fn from(of: &v1::Stream) -> Stream {
        let positive = |value: f64| (value > 0.0).then_some(value);
        Stream {
            id: of.id,
            note: if of.id == 0 { "control" } else { "" },
            addresses: (of.address.clone(), of.peer_address.clone()),
            seen: None,
            bytes: of.bytes as f64,
            rtt: [positive(of.min_rtt_s), positive(of.rtt_s), None],
            cwnd: [Some(f64::from(of.cwnd_segments)), None],
            mss_bytes: of.mss_bytes.into(),
            retransmits: Some(of.retransmits),
            sent: (of.sent_bytes as f64, of.resent_bytes as f64),
            delivery_bit_s: Some(of.delivery_rate_bit_s as f64),
            pace_bit_s: None,
            busy: (of.busy_s, of.receive_window_limited_s, of.send_buffer_limited_s),
            window_bytes: of.window_bytes,
            is_scaled: Some(of.window_scaling),
            congestion: of.congestion.clone(),
            payload: of.payload.clone(),
        }
    }
}

impl Stream {
    /// A stream that only a series knows.
    pub fn of_series(id: u32, facts: &Facts, sends: bool) -> Stream {
        let stream = Stream {
            id,
            bytes: facts.bytes[usize::from(!sends)],
            mss_bytes: facts.mss_bytes,
            congestion: facts.congestion.clone(),
            seen: facts.seen(),
            ..Stream::default()
        };
        if sends { stream.with_series(facts) } else { stream }
    }

    /// With what a series knows of its time. What is counted is the receipt's, where there is one: it was made later.
    pub fn with_series(self, facts: &Facts) -> Stream {
        let is_new = self.sent.0 <= 0.0;
        Stream {
            rtt: [
                self.rtt[0].or(facts.min_rtt_s).or(facts.rtt.least()),
                facts.rtt.median().or(self.rtt[1]),
                facts.rtt.most(),
            ],
            cwnd: [facts.cwnd.median().or(self.cwnd[0]), facts.cwnd.most()],
            delivery_bit_s: facts.delivery_rate.median().or(self.delivery_bit_s),
            pace_bit_s: facts.pace_bit_s,
            seen: facts.seen(),
            sent: if is_new { (facts.sent_bytes, facts.resent_bytes) } else { self.sent },
            busy: if is_new { (facts.busy_s, facts.receive_window_s, facts.send_buffer_s) } else { self.busy },
            window_bytes: if is_new { facts.window_bytes } else { self.window_bytes },
            ..self
        }
    }
}

/// A table of whatever there is to say.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What it is about.
    pub title: String,
    /// What its columns are.
    pub heads: Vec<&'static str>,
    /// Its rows; the first cell of each names it.
    pub rows: Vec<Vec<String>>,
}

/// What did not arrive.
#[derive(Clone, Debug, Default)]
pub struct Misses {
    /// The first of them, named.
    pub named: Vec<v1::Miss>,
    /// How many more the receipt names or counts.
    pub more: u64,
}

/// One job or test.
#[derive(Debug)]
pub struct Story {
    /// From where to where.
    pub title: String,
    /// What it was read from.
    pub files: Vec<String>,
    /// How it went.
    pub tone: Tone,
    /// In one sentence.
    pub verdict: String,
    /// What says so.
    pub evidence: String,
    /// What to do.
    pub remedy: String,
    /// Beside others.
    pub brief: Brief,
    /// Key numbers, by name.
    pub numbers: Vec<(&'static str, String)>,
    /// Over time.
    pub course: Option<Course>,
    /// Its streams.
    pub streams: Vec<Stream>,
    /// Both hosts, phases, and what else there is.
    pub sheets: Vec<Sheet>,
    /// What did not arrive.
    pub misses: Misses,
    /// What is to be known of the files themselves.
    pub remarks: Vec<String>,
}

impl Story {
    /// One of which only this is known.
    pub fn new(title: String, tone: Tone, verdict: String) -> Story {
        Story {
            title,
            files: Vec::new(),
            tone,
            verdict,
            evidence: String::new(),
            remedy: String::new(),
            brief: Brief::default(),
            numbers: Vec::new(),
            course: None,
            streams: Vec::new(),
            sheets: Vec::new(),
            misses: Misses::default(),
            remarks: Vec::new(),
        }
    }
}

/// What held a job back, as people call it.
pub fn held_word(held: Held) -> &'static str {
    match held {
        Held::Source => crate::receipt::part("source"),
        Held::SenderCpu => crate::receipt::part("sender_cpu"),
        Held::Network => crate::receipt::part("network"),
        Held::ReceiverCpu => crate::receipt::part("receiver_cpu"),
        Held::Target => crate::receipt::part("target"),
        Held::Cap => crate::receipt::part("cap"),
        Held::Orders => "nothing to send",
    }
}

/// For which share of the time each was the limit, the longest first; what never was is left out.
pub fn held_shares(moments: &[Moment]) -> Vec<(Held, f64)> {
    let lasting = |held: Option<Held>| {
        let these = moments.iter().filter(|m| m.held.is_some() && (held.is_none() || m.held == held));
        these.map(|m| m.to_s - m.from_s).sum::<f64>()
    };
    let all = lasting(None);
    let mut shares: Vec<(Held, f64)> = Held::ALL.map(|held| (held, lasting(Some(held)) / all)).into();
    shares.retain(|(_, share)| *share > 0.0);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// The same in words; empty where nothing is known.
pub fn held_words(moments: &[Moment]) -> String {
    let words =
        held_shares(moments).into_iter().map(|(held, share)| format!("{} {}", held_word(held), format::percent(share)));
    words.collect::<Vec<_>>().join(", ")
}
