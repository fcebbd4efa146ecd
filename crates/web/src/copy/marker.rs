//! Performance markers: with them a running third-party copy reports its progress, and that it is still running.
//!
//! davix reads fields at fixed offsets. So the writer puts exactly one space after each colon, and always counts at least one stripe.
//! The reader is as tolerant as davix: it accepts any case and any indentation, and skips unknown lines.

use std::fmt::Write;
use std::net::SocketAddr;

use super::line::one_line;
use super::outcome::CopyOutcome;

/// The most bytes of a line, as in davix; the rest of a longer line is dropped.
pub const LINE_BYTES_MAX: usize = 1024;
/// The most connections that are read from one marker.
pub const REMOTES_MAX: usize = 128;

/// One marker: the state of a stripe. Copies of this node have one stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The time, seconds since 1970.
    pub timestamp_s: i64,
    /// The index of the stripe, from 0.
    pub stripe: u32,
    /// Bytes of the stripe that have been written since the beginning.
    pub bytes: u64,
    /// The number of stripes; at least 1.
    pub stripes: u32,
    /// The remote ends of the data connections. FTS reports from them whether the copy uses IPv4 or IPv6.
    pub remotes: Vec<SocketAddr>,
    /// A number or word for the state of the copy, as dCache writes it.
    pub state: Option<String>,
    /// The state in words, for people.
    pub description: Option<String>,
}

impl Default for Marker {
    fn default() -> Marker {
        Marker { timestamp_s: 0, stripe: 0, bytes: 0, stripes: 1, remotes: Vec::new(), state: None, description: None }
    }
}

impl Marker {
    /// Writes the marker, up to `End` and its line feed.
    pub fn write(&self, out: &mut String) {
        // Writing into a String cannot fail.
        let _ = writeln!(out, "Perf Marker\nTimestamp: {}", self.timestamp_s);
        if let Some(state) = &self.state {
            let _ = writeln!(out, "State: {}", one_line(state));
        }
        if let Some(description) = &self.description {
            let _ = writeln!(out, "State description: {}", one_line(description));
        }
        let _ = writeln!(out, "Stripe Index: {}\nStripe Bytes Transferred: {}", self.stripe, self.bytes);
        let _ = writeln!(out, "Total Stripe Count: {}", self.stripes.max(1));
        if !self.remotes.is_empty() {
            let _ = writeln!(out, "RemoteConnections: {}", self.connections());
        }
        out.push_str("End\n");
    }

    /// The connections, as many as fit into a line. davix reads only the first one.
    fn connections(&self) -> String {
        let mut list = String::new();
        for at in &self.remotes {
            // An IPv6 socket shows an IPv4 peer as a mapped address.
            let word = format!("tcp:{}", SocketAddr::new(at.ip().to_canonical(), at.port()));
            if list.len() + word.len() >= LINE_BYTES_MAX - 32 {
                break;
            }
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(&word);
        }
        list
    }
}

/// An item of a stream of markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkerEvent {
    /// The progress of the copy.
    Marker(Marker),
    /// The outcome of the copy; everything after it is ignored.
    Outcome(CopyOutcome),
}

/// Parses a stream of markers: bytes in, markers out.
#[derive(Clone, Debug, Default)]
pub struct Markers {
    line: Vec<u8>,
    open: Option<Marker>,
    ended: bool,
}

impl Markers {
    /// Parses the next bytes of the stream. Returns the items that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<MarkerEvent> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let (text, whole) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if whole {
                events.extend(self.end_line());
            }
        }
        events
    }

    /// Ends the stream. Returns the item of its last line, if that line has no line feed. If no [`MarkerEvent::Outcome`] has come, the
    /// outcome of the copy is unknown.
    pub fn finish(&mut self) -> Option<MarkerEvent> {
        self.end_line()
    }

    /// Whether the outcome has been read.
    pub fn has_outcome(&self) -> bool {
        self.ended
    }

    fn end_line(&mut self) -> Option<MarkerEvent> {
        let bytes = std::mem::take(&mut self.line);
        if self.ended {
            return None;
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim();
        if let Some(last) = CopyOutcome::parse(line) {
            self.ended = true;
            return Some(MarkerEvent::Outcome(last));
        }
        if line.eq_ignore_ascii_case("perf marker") {
            self.open = Some(Marker::default());
            return None;
        }
        if line.eq_ignore_ascii_case("end") {
            return self.open.take().map(MarkerEvent::Marker);
        }
        if let (Some(marker), Some((name, value))) = (&mut self.open, line.split_once(':')) {
            marker.set_field(name.trim(), value.trim());
        }
        None
    }
}

impl Marker {
    /// Sets the field of a line; unknown and malformed lines are skipped.
    fn set_field(&mut self, name: &str, value: &str) {
        match name.to_ascii_lowercase().as_str() {
            "timestamp" => self.timestamp_s = value.parse().unwrap_or(self.timestamp_s),
            "stripe index" => self.stripe = value.parse().unwrap_or(self.stripe),
            "stripe bytes transferred" => self.bytes = value.parse().unwrap_or(self.bytes),
            "total stripe count" => self.stripes = value.parse().unwrap_or(self.stripes).max(1),
            "remoteconnections" => {
                let one = |word: &str| word.trim().strip_prefix("tcp:")?.parse().ok();
                self.remotes = value.split(',').filter_map(one).take(REMOTES_MAX).collect();
            }
            "state" => self.state = Some(one_line(value)),
            "state description" => self.description = Some(one_line(value)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const XROOTD: &str = "Perf Marker\nTimestamp: 1795174284\nStripe Index: 0\nStripe Bytes Transferred: 10000000\n\
        Total Stripe Count: 1\nRemoteConnections: tcp:127.0.0.1:11094\nEnd\n";

    fn marker() -> Marker {
        let remotes = vec!["127.0.0.1:11094".parse().unwrap()];
        Marker { timestamp_s: 1_795_174_284, bytes: 10_000_000, remotes, ..Marker::default() }
    }

    #[test]
    fn a_marker_equals_that_of_the_reference_server() {
        let mut out = String::new();
        marker().write(&mut out);
        assert_eq!(out, XROOTD);
        assert_eq!(out.len(), 0x96, "the chunk of the transcript");
    }

    #[test]
    fn optional_fields_are_written_within_their_lines() {
        let remotes = ["[2001:db8::1]:443", "[::ffff:192.0.2.1]:80"].map(|at| at.parse().unwrap()).to_vec();
        let (state, description) = (Some("2".to_owned()), Some("moving\nSuccess".to_owned()));
        let mut out = String::new();
        Marker { remotes, state, description, stripes: 0, ..Marker::default() }.write(&mut out);
        let expected = "Perf Marker\nTimestamp: 0\nState: 2\nState description: moving Success\nStripe Index: 0\n\
            Stripe Bytes Transferred: 0\nTotal Stripe Count: 1\n\
            RemoteConnections: tcp:[2001:db8::1]:443,tcp:192.0.2.1:80\nEnd\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn no_line_is_longer_than_davix_reads() {
        let at: SocketAddr = "[2001:db8:1111:2222:3333:4444:5555:6666]:12345".parse().unwrap();
        let mut out = String::new();
        Marker { remotes: vec![at; 100], ..Marker::default() }.write(&mut out);
        assert!(out.lines().all(|line| line.len() < LINE_BYTES_MAX), "{out}");
        let events = Markers::default().push(out.as_bytes());
        assert!(
            matches!(events.as_slice(), [MarkerEvent::Marker(m)] if m.remotes.len() > 10 && m.remotes.iter().all(|r| *r == at))
        );
    }

    #[test]
    fn the_size_of_the_pieces_of_a_stream_does_not_matter() {
        let dcache = "perf marker\r\n    TIMESTAMP:   5\r\n    Stripe Start Time: 3\r\n    State: 10\r\n  \
                      Stripe Bytes Transferred: 7\r\n    Total Stripe Count: 0\r\nEnd\r\n";
        let stream = format!("hello\nEnd\n{dcache}{XROOTD}success: Created\n{XROOTD}failure: no\n");
        let first = Marker { timestamp_s: 5, bytes: 7, state: Some("10".to_owned()), ..Marker::default() };
        let expected =
            [MarkerEvent::Marker(first), MarkerEvent::Marker(marker()), MarkerEvent::Outcome(CopyOutcome::Success)];
        for size in [1, 2, 7, 1000] {
            let mut markers = Markers::default();
            let events: Vec<MarkerEvent> =
                stream.as_bytes().chunks(size).flat_map(|piece| markers.push(piece)).collect();
            assert_eq!(events, expected);
            assert!(markers.has_outcome());
            assert_eq!(markers.finish(), None);
        }
    }

    #[test]
    fn a_stream_that_is_cut_has_an_outcome_only_if_its_last_line_says_one() {
        let mut markers = Markers::default();
        assert_eq!(markers.push(b"Perf Marker\nTimestamp: 1\nfailure: no sp"), []);
        assert_eq!(markers.finish(), Some(MarkerEvent::Outcome(CopyOutcome::Failure("no sp".to_owned()))));
        let mut markers = Markers::default();
        assert_eq!(markers.push(&vec![b'x'; 1 << 20]), []);
        assert!(markers.line.len() <= LINE_BYTES_MAX);
        assert_eq!((markers.finish(), markers.has_outcome()), (None, false));
    }

    proptest! {
        #[test]
        fn a_written_marker_is_parsed_unchanged(timestamp_s in any::<i64>(), stripe in any::<u32>(), bytes in any::<u64>(),
                                   stripes in 1u32.., ports in proptest::collection::vec(any::<u16>(), 0..4)) {
            let remotes = ports.into_iter().map(|port| SocketAddr::new([127, 0, 0, 1].into(), port)).collect();
            let marker = Marker { timestamp_s, stripe, bytes, stripes, remotes, ..Marker::default() };
            let mut out = String::new();
            marker.write(&mut out);
            prop_assert_eq!(Markers::default().push(out.as_bytes()), [MarkerEvent::Marker(marker)]);
        }

        #[test]
        fn any_stream_is_parsed_without_a_panic(
            text in "((Perf Marker|End|success|failure: x|Stripe Index: [0-9a]{1,12}|\\PC{0,9})\n?){0,9}",
        ) {
            crate::fuzzing::markers(text.as_bytes());
        }
    }
}
