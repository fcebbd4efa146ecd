//! The contents of a page about one transfer or test, from any source. The page leaves out what is absent.

use model::v1;
use pilot::verdict::LimitingPart;

use crate::format;
use crate::timeline::{Moment, StreamFacts, TransferTimeline};

/// The outcome, which selects a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All done.
    Good,
    /// Done in part.
    Part,
    /// Failed.
    Bad,
    /// Without a verdict.
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
pub struct ComparisonRow {
    /// The outcome.
    pub state: String,
    /// Bytes that arrived.
    pub bytes: Option<f64>,
    /// The number of files.
    pub files: Option<u64>,
    /// The duration, seconds.
    pub seconds: Option<f64>,
    /// The mean rate, bit/s.
    pub rate_bit_s: Option<f64>,
    /// The number of data streams.
    pub streams: Option<u64>,
    /// The limiting part.
    pub limited_by: String,
}

/// A TCP stream; times in seconds, rates in bit/s.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Its number.
    pub id: u32,
    /// A note beside its number.
    pub note: &'static str,
    /// Its addresses: from, to.
    pub addresses: (String, String),
    /// When it existed: from, to.
    pub seen: Option<(f64, f64)>,
    /// Bytes of payload.
    pub bytes: f64,
    /// Round trips: the least, the median, the most.
    pub rtt: [Option<f64>; 3],
    /// Congestion windows, segments: the median or the last, and the most.
    pub cwnd: [Option<f64>; 2],
    /// Segment size.
    pub mss_bytes: u64,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Bytes sent, including those sent again; and bytes sent again.
    pub sent: (f64, f64),
    /// The kernel's estimate of the path's rate.
    pub delivery_bit_s: Option<f64>,
    /// The limit on its rate.
    pub pace_bit_s: Option<f64>,
    /// Time with data in flight or waiting, and the parts of it with the receive window full and with the send buffer full.
    pub busy: (f64, f64, f64),
    /// The window that the receiver offered last.
    pub window_bytes: u64,
    /// Whether both ends scale windows.
    pub is_scaled: Option<bool>,
    /// Congestion control.
    pub congestion: String,
    /// `sealed` or `plain`.
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
    /// A stream that only a series has.
    pub fn of_series(id: u32, facts: &StreamFacts, sends: bool) -> Stream {
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

    /// The stream with the times that a series has. Counts of a receipt are kept: it was written later.
    pub fn with_series(self, facts: &StreamFacts) -> Stream {
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

/// A table with a title.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The title.
    pub title: String,
    /// The column headings.
    pub heads: Vec<&'static str>,
    /// Its rows; the first cell of each names it.
    pub rows: Vec<Vec<String>>,
}

/// The files that did not arrive.
#[derive(Clone, Debug, Default)]
pub struct Misses {
    /// The first of them, by name.
    pub named: Vec<v1::Miss>,
    /// The number of further ones that the receipt names or counts.
    pub more: u64,
}

/// One job or test.
#[derive(Debug)]
pub struct Story {
    /// The source and the target.
    pub title: String,
    /// The files that it was read from.
    pub files: Vec<String>,
    /// Its outcome.
    pub tone: Tone,
    /// The verdict, one sentence.
    pub verdict: String,
    /// The evidence of the verdict.
    pub evidence: String,
    /// The remedy.
    pub remedy: String,
    /// Its row in the comparison.
    pub comparison: ComparisonRow,
    /// Key numbers, by name.
    pub numbers: Vec<(&'static str, String)>,
    /// Its timeline.
    pub timeline: Option<TransferTimeline>,
    /// Its streams.
    pub streams: Vec<Stream>,
    /// Tables of both hosts, phases and the like.
    pub sheets: Vec<Sheet>,
    /// The files that did not arrive.
    pub misses: Misses,
    /// Remarks about the files that it was read from.
    pub remarks: Vec<String>,
}

impl Story {
    /// A story with nothing but a title and a verdict.
    pub fn new(title: String, tone: Tone, verdict: String) -> Story {
        Story {
            title,
            files: Vec::new(),
            tone,
            verdict,
            evidence: String::new(),
            remedy: String::new(),
            comparison: ComparisonRow::default(),
            numbers: Vec::new(),
            timeline: None,
            streams: Vec::new(),
            sheets: Vec::new(),
            misses: Misses::default(),
            remarks: Vec::new(),
        }
    }
}

/// The name of a limiting part for people.
pub fn limit_word(limit: LimitingPart) -> &'static str {
    match limit {
        LimitingPart::Source => crate::receipt::part("source"),
        LimitingPart::SenderCpu => crate::receipt::part("sender_cpu"),
        LimitingPart::Network => crate::receipt::part("network"),
        LimitingPart::ReceiverCpu => crate::receipt::part("receiver_cpu"),
        LimitingPart::Target => crate::receipt::part("target"),
        LimitingPart::Cap => crate::receipt::part("cap"),
        LimitingPart::Orders => "nothing to send",
    }
}

/// The share of the time in which each part was the limit, the longest first. Parts that never were are left out.
pub fn limit_shares(moments: &[Moment]) -> Vec<(LimitingPart, f64)> {
    let lasting_s = |limit: Option<LimitingPart>| {
        let limited = moments.iter().filter(|m| m.limit.is_some() && (limit.is_none() || m.limit == limit));
        limited.map(|m| m.to_s - m.from_s).sum::<f64>()
    };
    let all = lasting_s(None);
    let mut shares: Vec<(LimitingPart, f64)> =
        LimitingPart::ALL.map(|limit| (limit, lasting_s(Some(limit)) / all)).into();
    shares.retain(|(_, share)| *share > 0.0);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// The shares of the limiting parts in words; empty if nothing is known.
pub fn limit_words(moments: &[Moment]) -> String {
    let words = limit_shares(moments)
        .into_iter()
        .map(|(limit, share)| format!("{} {}", limit_word(limit), format::percent(share)));
    words.collect::<Vec<_>>().join(", ")
}
