//! The tables of a report.

use model::v1::Miss;

use super::super::shown::{self, NONE};
use super::super::story::{Sheet, Story, Stream};
use crate::html::{Table, brief, name};

/// Rows of the comparison.
const COMPARED_MAX: usize = 1000;
/// Streams with a row of their own; those that moved least are added up.
const STREAMS_MAX: usize = 64;

/// All stories, a row each.
pub fn comparison(stories: &[Story]) -> String {
    let heads = ["", "ended", "moved", "files", "time", "mean rate", "streams", "limited by"];
    let mut table = Table::new("", "All of them", &heads);
    for (at, story) in stories.iter().take(COMPARED_MAX).enumerate() {
        let brief = &story.brief;
        table.row(&[
            format!("{}. {}", at + 1, story.title),
            brief.state.clone(),
            shown::maybe(brief.bytes, shown::bytes),
            brief.files.map_or_else(|| NONE.into(), |files| files.to_string()),
            shown::maybe(brief.seconds, shown::seconds),
            shown::maybe(brief.rate_bit_s, shown::rate),
            brief.streams.map_or_else(|| NONE.into(), |streams| streams.to_string()),
            brief.limited_by.clone(),
        ]);
    }
    let more = stories.len().saturating_sub(COMPARED_MAX);
    let more = if more > 0 { format!("<p>… and {more} more.</p>") } else { String::new() };
    table.end() + &more
}

/// A table of anything.
pub fn sheet(sheet: &Sheet) -> String {
    let mut table = Table::new("", &sheet.title, &sheet.heads);
    sheet.rows.iter().for_each(|row| table.row(row));
    table.end()
}

/// What did not arrive, by name.
pub fn misses(named: &[Miss]) -> String {
    let mut table =
        Table::new("", "Names are as the source has them; odd bytes are spelled out", &["path", "whose fault", "why"]);
    for miss in named {
        table.markup(&[name(&miss.path), brief(&miss.fault), brief(&miss.reason)]);
    }
    table.end()
}

/// What TCP says of each stream, in two tables that fit a page.
pub fn streams(all: &[Stream]) -> String {
    let mut shown: Vec<&Stream> = all.iter().collect();
    // Those that moved most, in the order of their numbers.
    shown.sort_by(|a, b| b.bytes.total_cmp(&a.bytes).then(a.id.cmp(&b.id)));
    let left = shown.split_off(shown.len().min(STREAMS_MAX));
    shown.sort_by_key(|stream| stream.id);
    let mut out = carried(&shown);
    if !left.is_empty() {
        let bytes = shown::bytes(left.iter().map(|stream| stream.bytes).sum());
        out += &format!("<p>… and {} more, which moved {bytes} together.</p>", left.len());
    }
    out + &waited(&shown)
}

fn label(stream: &Stream) -> String {
    if stream.note.is_empty() { stream.id.to_string() } else { format!("{} ({})", stream.id, stream.note) }
}

fn carried(streams: &[&Stream]) -> String {
    let heads = [
        "stream",
        "from",
        "to",
        "seen",
        "moved",
        "round trip: least",
        "median",
        "most",
        "window of congestion control: median",
        "most",
        "segment",
        "congestion control",
        "payload",
    ];
    let mut table = Table::new(
        "numbers",
        "What each stream moved, and over what; without a series the last in place of medians",
        &heads,
    );
    for stream in streams {
        let segments = |value: Option<f64>| {
            shown::maybe(value, |segments| {
                let bytes = segments * stream.mss_bytes as f64;
                format!("{} ({})", shown::count(segments), shown::bytes(bytes))
            })
        };
        let said = |text: &str| if text.is_empty() { NONE.to_owned() } else { text.to_owned() };
        table.row(&[
            label(stream),
            said(&stream.addresses.0),
            said(&stream.addresses.1),
            stream
                .seen
                .map_or_else(|| NONE.into(), |(from, to)| format!("{} – {}", shown::moment(from), shown::moment(to))),
            shown::bytes(stream.bytes),
            shown::maybe(stream.rtt[0], shown::ms),
            shown::maybe(stream.rtt[1], shown::ms),
            shown::maybe(stream.rtt[2], shown::ms),
            segments(stream.cwnd[0]),
            segments(stream.cwnd[1]),
            format!("{} B", stream.mss_bytes),
            said(&stream.congestion),
            said(&stream.payload),
        ]);
    }
    table.end()
}

fn waited(streams: &[&Stream]) -> String {
    let heads = [
        "stream",
        "segments sent again",
        "bytes sent again",
        "delivery rate",
        "told to send at most",
        "busy",
        "receive window full",
        "send buffer full",
        "window offered",
        "windows scaled",
    ];
    let mut table = Table::new(
        "numbers",
        "What held each stream back, as the kernel of the sending end says; windows and buffers as shares of busy",
        &heads,
    );
    for stream in streams {
        let (busy, window, buffer) = stream.busy;
        let (sent, again) = stream.sent;
        table.row(&[
            label(stream),
            stream.retransmits.map_or_else(|| NONE.into(), |many| many.to_string()),
            format!("{} ({})", shown::bytes(again), shown::part_of(again, sent)),
            shown::maybe(stream.delivery_bit_s, shown::rate),
            shown::maybe(stream.pace_bit_s, shown::rate),
            shown::seconds(busy),
            shown::part_of(window, busy),
            shown::part_of(buffer, busy),
            if stream.window_bytes > 0 { shown::bytes(stream.window_bytes as f64) } else { NONE.into() },
            stream.is_scaled.map_or(NONE, |is_scaled| if is_scaled { "yes" } else { "no" }).into(),
        ]);
    }
    table.end()
}
