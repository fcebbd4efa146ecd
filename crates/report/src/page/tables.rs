//! The tables of a report.

use model::v1::Miss;

use crate::format::{self, NONE};
use crate::html::{Table, brief, name};
use crate::story::{Sheet, Story, Stream};

/// The most rows of the comparison.
const COMPARED_MAX: usize = 1000;
/// The most streams with a row of their own; those that moved least are added up.
const STREAMS_MAX: usize = 64;

/// The comparison: a row for each story.
pub fn comparison(stories: &[Story]) -> String {
    let heads = ["", "ended", "moved", "files", "time", "mean rate", "streams", "limited by"];
    let mut table = Table::new("", "All of them", &heads);
    for (at, story) in stories.iter().take(COMPARED_MAX).enumerate() {
        let row = &story.comparison;
        table.row(&[
            format!("{}. {}", at + 1, story.title),
            row.state.clone(),
            format::maybe(row.bytes, format::bytes),
            row.files.map_or_else(|| NONE.into(), |files| files.to_string()),
            format::maybe(row.seconds, format::seconds),
            format::maybe(row.rate_bit_s, format::rate),
            row.streams.map_or_else(|| NONE.into(), |streams| streams.to_string()),
            row.limited_by.clone(),
        ]);
    }
    let more = stories.len().saturating_sub(COMPARED_MAX);
    let more = if more > 0 { format!("<p>… and {more} more.</p>") } else { String::new() };
    table.end() + &more
}

/// A table of a story.
pub fn sheet(sheet: &Sheet) -> String {
    let mut table = Table::new("", &sheet.title, &sheet.heads);
    sheet.rows.iter().for_each(|row| table.row(row));
    table.end()
}

/// The failures, by name.
pub fn misses(named: &[Miss]) -> String {
    let mut table =
        Table::new("", "Names are as the source has them; odd bytes are spelled out", &["path", "whose fault", "why"]);
    for miss in named {
        table.markup(&[name(&miss.path), brief(&miss.fault), brief(&miss.reason)]);
    }
    table.end()
}

/// The TCP facts of each stream, in two tables that fit a page.
pub fn streams(all: &[Stream]) -> String {
    let mut shown: Vec<&Stream> = all.iter().collect();
    // The streams that moved most, in the order of their numbers.
    shown.sort_by(|a, b| b.bytes.total_cmp(&a.bytes).then(a.id.cmp(&b.id)));
    let others = shown.split_off(shown.len().min(STREAMS_MAX));
    shown.sort_by_key(|stream| stream.id);
    let mut out = traffic_table(&shown);
    if !others.is_empty() {
        let bytes = format::bytes(others.iter().map(|stream| stream.bytes).sum());
        out += &format!("<p>… and {} more, which moved {bytes} together.</p>", others.len());
    }
    out + &limits_table(&shown)
}

fn label(stream: &Stream) -> String {
    if stream.note.is_empty() { stream.id.to_string() } else { format!("{} ({})", stream.id, stream.note) }
}

fn traffic_table(streams: &[&Stream]) -> String {
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
        "Bytes and path of each stream; without a series, last values in place of medians",
        &heads,
    );
    for stream in streams {
        let segments = |value: Option<f64>| {
            format::maybe(value, |segments| {
                let bytes = segments * stream.mss_bytes as f64;
                format!("{} ({})", format::count(segments), format::bytes(bytes))
            })
        };
        let or_dash = |text: &str| if text.is_empty() { NONE.to_owned() } else { text.to_owned() };
        table.row(&[
            label(stream),
            or_dash(&stream.addresses.0),
            or_dash(&stream.addresses.1),
            stream
                .seen
                .map_or_else(|| NONE.into(), |(from, to)| format!("{} – {}", format::moment(from), format::moment(to))),
            format::bytes(stream.bytes),
            format::maybe(stream.rtt[0], format::ms),
            format::maybe(stream.rtt[1], format::ms),
            format::maybe(stream.rtt[2], format::ms),
            segments(stream.cwnd[0]),
            segments(stream.cwnd[1]),
            format!("{} B", stream.mss_bytes),
            or_dash(&stream.congestion),
            or_dash(&stream.payload),
        ]);
    }
    table.end()
}

fn limits_table(streams: &[&Stream]) -> String {
    let heads = [
        "stream",
        "segments sent again",
        "bytes sent again",
        "delivery rate",
        "pacing limit",
        "busy",
        "receive window full",
        "send buffer full",
        "window offered",
        "windows scaled",
    ];
    let mut table = Table::new(
        "numbers",
        "The limits of each stream, by the kernel of the sending end; windows and buffers as shares of busy",
        &heads,
    );
    for stream in streams {
        let (busy, window, buffer) = stream.busy;
        let (sent, again) = stream.sent;
        table.row(&[
            label(stream),
            stream.retransmits.map_or_else(|| NONE.into(), |many| many.to_string()),
            format!("{} ({})", format::bytes(again), format::part_of(again, sent)),
            format::maybe(stream.delivery_bit_s, format::rate),
            format::maybe(stream.pace_bit_s, format::rate),
            format::seconds(busy),
            format::part_of(window, busy),
            format::part_of(buffer, busy),
            if stream.window_bytes > 0 { format::bytes(stream.window_bytes as f64) } else { NONE.into() },
            stream.is_scaled.map_or(NONE, |is_scaled| if is_scaled { "yes" } else { "no" }).into(),
        ]);
    }
    table.end()
}
