//! The charts of a report, each with its numbers.

use std::collections::BTreeMap;

use pilot::verdict::{LimitingPart, Shares};

use crate::format;
use crate::html::{ChartLane, Plot, Scale, Step, Table, lanes};
use crate::story::{Story, limit_shares, limit_word};
use crate::timeline::{Mean, Moment, TransferTimeline};

/// The largest number of lines in a chart; the last one is for all other streams together.
const LINES_MAX: usize = 8;

fn step(mean: &Mean) -> Step {
    Step { from: mean.from_s, to: mean.to_s, low: 0.0, high: mean.mean }
}

fn when(from_s: f64, to_s: f64) -> String {
    format!("{} – {}", format::moment(from_s), format::moment(to_s))
}

fn highest(means: &[Mean]) -> f64 {
    means.iter().map(|mean| mean.high).fold(0.0, f64::max)
}

/// The rates of several jobs on one axis.
pub fn comparison(stories: &[Story]) -> String {
    let all = stories.iter().enumerate().filter_map(|(at, story)| Some((at, story.timeline.as_ref()?)));
    let drawn: Vec<(usize, &TransferTimeline, Vec<Mean>)> = all
        .map(|(at, timeline)| (at, timeline, timeline.rates()))
        .filter(|(.., rates)| !rates.is_empty())
        .take(LINES_MAX)
        .collect();
    if drawn.len() < 2 {
        return String::new();
    }
    let end_s = drawn.iter().map(|(_, timeline, _)| timeline.end_s()).fold(0.0, f64::max);
    let most = drawn.iter().flat_map(|(.., rates)| rates).map(|mean| mean.mean).fold(0.0, f64::max);
    let about = "Each from its own start. The numbers stand with each job below.";
    let mut plot = Plot::new("all-rates", "Rates side by side", about, Scale::seconds(end_s), Scale::rate(most));
    for (style, (at, _, rates)) in drawn.iter().enumerate() {
        plot.line(style, &rates.iter().map(step).collect::<Vec<_>>());
        plot.key_line(style, &format!("{}. {}", at + 1, stories[*at].title));
    }
    plot.figure("")
}

/// All charts of one job.
pub fn timeline(timeline: &TransferTimeline, number: usize) -> String {
    let x = Scale::seconds(timeline.end_s());
    let moments = timeline.moments();
    let mut out = rate(timeline, number, &x);
    out += &streams(timeline, number, &x);
    out += &limits(&moments, number, &x);
    out += &threads(&moments, number, &x, "sender", "The sending end's threads", |moment| moment.sender);
    out += &threads(&moments, number, &x, "receiver", "The receiving end's threads", |moment| moment.receiver);
    out += &tcp(&moments, number, &x);
    out + &round_trips(timeline, number, &x)
}

fn rate(timeline: &TransferTimeline, number: usize, x: &Scale) -> String {
    let rates = timeline.rates();
    if rates.is_empty() {
        return String::new();
    }
    let id = format!("job{number}-rate");
    let length = format::seconds(timeline.step_s());
    let about = format!(
        "All streams together: the mean of each {length}, and the lowest and highest rate between two samples."
    );
    let mut plot = Plot::new(&id, "Rate", &about, x.clone(), Scale::rate(highest(&rates)));
    let band = |mean: &Mean| Step { low: mean.low, high: mean.high, ..step(mean) };
    plot.area("faint", &rates.iter().map(band).collect::<Vec<_>>());
    plot.line(0, &rates.iter().map(step).collect::<Vec<_>>());
    plot.key_line(0, "mean");
    plot.key_area("faint", "least to most");
    let mut table = Table::new("numbers", "Rates", &["from – to", "mean", "least", "most"]);
    for mean in &rates {
        let when = when(mean.from_s, mean.to_s);
        table.row(&[when, format::rate(mean.mean), format::rate(mean.low), format::rate(mean.high)]);
    }
    plot.figure(&table.folded("Numbers"))
}

/// The rates of the streams. Those that moved most have a line each.
fn streams(timeline: &TransferTimeline, number: usize, x: &Scale) -> String {
    let index = usize::from(!timeline.sends());
    let mut ids: Vec<(u32, f64)> = timeline.streams().map(|(id, facts)| (id, facts.bytes[index])).collect();
    if ids.len() < 2 {
        return String::new();
    }
    ids.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let own = if ids.len() > LINES_MAX { LINES_MAX - 1 } else { ids.len() };
    let mut lines: Vec<(String, Vec<u32>)> = ids[..own].iter().map(|(id, _)| (id.to_string(), vec![*id])).collect();
    lines.sort_by_key(|(_, ids)| ids[0]);
    if own < ids.len() {
        lines.push((format!("{} others", ids.len() - own), ids[own..].iter().map(|(id, _)| *id).collect()));
    }
    let drawn: Vec<(String, Vec<Mean>)> =
        lines.into_iter().map(|(name, ids)| (name, timeline.rates_of(&ids))).collect();
    let most = drawn.iter().map(|(_, rates)| highest(rates)).fold(0.0, f64::max);
    let id = format!("job{number}-streams");
    let about = "Mean rates; the streams that moved most have a line each.";
    let mut plot = Plot::new(&id, "Rate of each stream", about, x.clone(), Scale::rate(most));
    for (style, (name, rates)) in drawn.iter().enumerate() {
        plot.line(style, &rates.iter().map(step).collect::<Vec<_>>());
        plot.key_line(style, name);
    }
    let heads: Vec<&str> = std::iter::once("from – to").chain(drawn.iter().map(|(name, _)| name.as_str())).collect();
    let mut table = Table::new("numbers", "Rates by stream", &heads);
    for (when, cells) in by_time(&drawn) {
        let cell = |at: usize| cells.get(&at).map_or(format::NONE.to_owned(), |rate| format::rate(*rate));
        table.row(&std::iter::once(when).chain((0..drawn.len()).map(cell)).collect::<Vec<_>>());
    }
    plot.figure(&table.folded("Numbers"))
}

/// Turns lines into rows: the values of all lines at a time.
fn by_time(lines: &[(String, Vec<Mean>)]) -> Vec<(String, BTreeMap<usize, f64>)> {
    // Cells begin at multiples of one length, so equal times are equal to the last bit.
    let mut rows: BTreeMap<u64, (String, BTreeMap<usize, f64>)> = BTreeMap::new();
    for (at, (_, means)) in lines.iter().enumerate() {
        for mean in means {
            let row =
                rows.entry(mean.from_s.to_bits()).or_insert_with(|| (when(mean.from_s, mean.to_s), BTreeMap::new()));
            row.1.insert(at, mean.mean);
        }
    }
    rows.into_values().collect()
}

/// The style of each limiting part, the same in every chart.
fn class(limit: LimitingPart) -> &'static str {
    match limit {
        LimitingPart::Source => "f4",
        LimitingPart::SenderCpu => "f1",
        LimitingPart::Network => "f0",
        LimitingPart::ReceiverCpu => "f3",
        LimitingPart::Target => "f2",
        LimitingPart::Cap => "f6",
        LimitingPart::Orders => "f7",
    }
}

fn limits(moments: &[Moment], number: usize, x: &Scale) -> String {
    let shares = limit_shares(moments);
    if shares.is_empty() {
        return String::new();
    }
    let lane = |limit: &LimitingPart| {
        let share = shares.iter().find(|(known, _)| known == limit)?.1;
        let name = format!("{} {}", lane_word(*limit), format::percent(share));
        Some(ChartLane { name, class: class(*limit), blocks: blocks(moments, *limit) })
    };
    let all: Vec<ChartLane> = LimitingPart::ALL.iter().filter_map(lane).collect();
    let mut table = Table::new("numbers", "The share of the time for which each was the limit", &["limit", "time"]);
    for (limit, share) in shares {
        table.row(&[limit_word(limit).to_owned(), format::percent(share)]);
    }
    let about = "The limiting part over time, from what the threads of both ends waited for.";
    lanes(&format!("job{number}-limits"), "Limits", about, x, &all, &table.folded("Numbers"))
}

/// A name that is short enough to stand beside a lane.
fn lane_word(limit: LimitingPart) -> &'static str {
    match limit {
        LimitingPart::Source => "source storage",
        LimitingPart::SenderCpu => "sender's CPU",
        LimitingPart::Network => "network",
        LimitingPart::ReceiverCpu => "receiver's CPU",
        LimitingPart::Target => "target storage",
        LimitingPart::Cap => "a limit",
        LimitingPart::Orders => "nothing to send",
    }
}

/// When a part was the limit; consecutive moments are one block.
fn blocks(moments: &[Moment], limit: LimitingPart) -> Vec<(f64, f64)> {
    let mut blocks: Vec<(f64, f64)> = Vec::new();
    for moment in moments.iter().filter(|moment| moment.limit == Some(limit)) {
        match blocks.last_mut() {
            Some(last) if moment.from_s <= last.1 * (1.0 + 1e-9) => last.1 = moment.to_s,
            _ => blocks.push((moment.from_s, moment.to_s)),
        }
    }
    blocks
}

/// An area chart of the shares of one whole, one above the other.
fn stack(
    id: &str,
    title: &str,
    about: &str,
    x: &Scale,
    parts: &[(&str, &str)],
    rows: &[(f64, f64, Vec<f64>)],
) -> String {
    let mut plot = Plot::new(id, title, about, x.clone(), Scale::share());
    for (at, (class, name)) in parts.iter().enumerate() {
        let area = |(from, to, shares): &(f64, f64, Vec<f64>)| {
            let low: f64 = shares[..at].iter().sum();
            Step { from: *from, to: *to, low, high: low + shares[at] }
        };
        plot.area(class, &rows.iter().map(area).collect::<Vec<_>>());
        plot.key_area(class, name);
    }
    let heads: Vec<&str> = std::iter::once("from – to").chain(parts.iter().map(|(_, name)| *name)).collect();
    let mut table = Table::new("numbers", title, &heads);
    for (from, to, shares) in rows {
        let cells = shares.iter().map(|share| format::percent((share * 1e4).round() / 1e4));
        table.row(&std::iter::once(when(*from, *to)).chain(cells).collect::<Vec<_>>());
    }
    plot.figure(&table.folded("Numbers"))
}

fn threads(
    moments: &[Moment],
    number: usize,
    x: &Scale,
    end: &str,
    title: &str,
    of: fn(&Moment) -> Option<Shares>,
) -> String {
    let row = |moment: &Moment| {
        let shares = of(moment)?;
        let all = vec![shares.cpu, shares.storage, shares.socket, shares.pace, shares.idle];
        Some((moment.from_s, moment.to_s, all))
    };
    let rows: Vec<(f64, f64, Vec<f64>)> = moments.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let parts = [
        ("f1", "processor"),
        ("f4", "waiting for files"),
        ("f0", "waiting for the socket"),
        ("f6", "waiting for a limit"),
        ("f7", "waiting for something to do"),
    ];
    let about = "The shares of their time.";
    stack(&format!("job{number}-{end}"), title, about, x, &parts, &rows)
}

fn tcp(moments: &[Moment], number: usize, x: &Scale) -> String {
    let row = |moment: &Moment| {
        let tcp = &moment.tcp;
        let share = |part: f64| (part / tcp.stream_s).clamp(0.0, 1.0);
        let (window, buffer) = (share(tcp.receive_window_s), share(tcp.send_buffer_s));
        let path = (share(tcp.busy_s) - window - buffer).max(0.0);
        let idle = (1.0 - window - buffer - path).max(0.0);
        (tcp.stream_s > 0.0).then(|| (moment.from_s, moment.to_s, vec![path, window, buffer, idle]))
    };
    let rows: Vec<(f64, f64, Vec<f64>)> = moments.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let parts = [
        ("f0", "data in flight"),
        ("f3", "receive window full"),
        ("f4", "send buffer full"),
        ("f7", "no data in flight"),
    ];
    let about = "The time of all streams together, by the sending end's kernel.";
    stack(&format!("job{number}-tcp"), "TCP", about, x, &parts, &rows)
}

fn round_trips(timeline: &TransferTimeline, number: usize, x: &Scale) -> String {
    let means = timeline.round_trips();
    if means.is_empty() {
        return String::new();
    }
    let to_ms = |mean: &Mean| Mean { mean: mean.mean * 1e3, low: mean.low * 1e3, high: mean.high * 1e3, ..*mean };
    let ms: Vec<Mean> = means.iter().map(to_ms).collect();
    let id = format!("job{number}-rtt");
    let about = "Smoothed by the sending end's kernel: the mean over all streams, and the least and the most of any.";
    let mut plot = Plot::new(&id, "Round trips", about, x.clone(), Scale::plain(highest(&ms), "ms"));
    let band = |mean: &Mean| Step { low: mean.low, high: mean.high, ..step(mean) };
    plot.area("faint", &ms.iter().map(band).collect::<Vec<_>>());
    plot.line(0, &ms.iter().map(step).collect::<Vec<_>>());
    plot.key_line(0, "mean");
    plot.key_area("faint", "least to most");
    let mut table = Table::new("numbers", "Round trips", &["from – to", "mean", "least", "most"]);
    for mean in &means {
        let when = when(mean.from_s, mean.to_s);
        table.row(&[when, format::ms(mean.mean), format::ms(mean.low), format::ms(mean.high)]);
    }
    plot.figure(&table.folded("Numbers"))
}
