//! Makes stories of a TCP test, one for each direction.

use std::collections::BTreeMap;

use model::units::BitRate;
use model::v1::probe::Direction;
use model::v1::probe::all::Support;
use model::v1::probe::host::Use;
use model::v1::probe::tcp::{DirectionReport, Interval, Kernel, Report};

use crate::format;
use crate::path::headline;
use crate::story::{Sheet, Story, Stream, Tone};
use crate::timeline::{Flow, StreamFacts, Tcp, TransferTimeline};

/// The largest time, thirty years.
const SECONDS_MAX: f64 = 1e9;
/// The most causes and settings that are shown; the lists of `longhaul probe` are shorter.
const ROWS_MAX: usize = 200;

/// The stories of a test, one for each direction.
pub fn stories(report: &Report, target: &str) -> Vec<Story> {
    report.directions.iter().take(2).map(|result| story(report, result, target)).collect()
}

/// The stories of the TCP tests among all tests of a path, with the causes from all tests.
pub fn of_support(support: &Support, target: &str) -> Vec<Story> {
    let tcp = &support.findings.tcp;
    let mut stories: Vec<Story> =
        [&tcp.forward, &tcp.reverse].into_iter().flatten().flat_map(|report| stories(report, target)).collect();
    if stories.is_empty() {
        stories.push(Story::new(target.to_owned(), Tone::Plain, "No TCP test could be done.".into()));
    }
    let row =
        |cause: &model::v1::probe::all::Cause| vec![headline(cause), cause.evidence.clone(), cause.remedy.clone()];
    let rows: Vec<Vec<String>> = support.causes.iter().take(ROWS_MAX).map(row).collect();
    let left_out = support.findings.left_out.iter().take(ROWS_MAX).map(|why| format!("Left out: {why}"));
    if let Some(first) = stories.first_mut() {
        first.remarks.extend(left_out);
        if !rows.is_empty() {
            let heads = vec!["cause", "evidence", "remedy"];
            first.sheets.insert(0, Sheet { title: "Causes, by all tests of the path".into(), heads, rows });
        }
    }
    stories
}

fn story(report: &Report, result: &DirectionReport, target: &str) -> Story {
    let (title, sent, received) = if result.direction.is_forward() {
        (format!("TCP test: here → {target}"), &report.near, &report.far)
    } else {
        (format!("TCP test: {target} → here"), &report.far, &report.near)
    };
    let rate = BitRate(result.rate_bit_s);
    let mut story = Story::new(title, Tone::Plain, format!("{rate}, limited by {}.", result.limit));
    story.timeline = Some(timeline(report, result.direction)).filter(|timeline| timeline.end_s() > 0.0);
    let totals = || sent.totals.iter().filter(|total| total.flow.direction == result.direction);
    let arrived: BTreeMap<u32, u64> =
        received.totals.iter().map(|total| (total.flow.stream, total.flow.bytes)).collect();
    for total in totals() {
        let bytes = arrived.get(&total.flow.stream).copied().unwrap_or(total.flow.bytes);
        let stream = Stream { bytes: bytes as f64, congestion: total.congestion.clone(), ..Stream::default() };
        let stream = total.flow.kernel.map_or(stream.clone(), |kernel| with_kernel(stream, &kernel));
        let timeline = story.timeline.as_ref();
        let facts = timeline.and_then(|timeline| timeline.streams().find(|(id, _)| *id == total.flow.stream));
        let stream = facts.map_or(stream.clone(), |(_, facts)| stream.with_series(facts));
        story.streams.push(Stream { id: total.flow.stream, ..stream });
    }
    story.comparison.state = "TCP test".into();
    story.comparison.bytes = Some(result.received_bytes as f64);
    story.comparison.seconds = totals().map(|total| total.counted_s).reduce(f64::max);
    story.comparison.rate_bit_s = Some(result.rate_bit_s as f64);
    story.comparison.streams = Some(story.streams.len() as u64);
    story.comparison.limited_by = match result.binding.as_str() {
        "" => "the path".into(),
        term => term.replace('_', " "),
    };
    let (to_send, to_receive) = result.cpu_s_per_gb;
    story.numbers = vec![
        ("Rate that arrived", rate.to_string()),
        ("Sent", format::bytes(result.sent_bytes as f64)),
        ("Arrived", format::bytes(result.received_bytes as f64)),
        ("Sent again", format::percent(result.resent)),
        ("Streams", story.streams.len().to_string()),
        ("Processor, to send", format!("{} for 1 GB", format::seconds(to_send))),
        ("Processor, to receive", format!("{} for 1 GB", format::seconds(to_receive))),
    ];
    story.sheets.extend(expected(result));
    story.sheets.extend(hosts(&report.near.host, &report.far.host));
    story.remarks.extend(report.near.remarks.iter().chain(&report.far.remarks).take(ROWS_MAX).cloned());
    story
}

fn with_kernel(stream: Stream, kernel: &Kernel) -> Stream {
    let segments = kernel.cwnd_bytes as f64 / f64::from(kernel.mss_bytes.max(1));
    let positive = |value: f64| (value > 0.0).then_some(value);
    Stream {
        rtt: [positive(kernel.min_rtt_s), positive(kernel.rtt_s), None],
        cwnd: [Some(segments), None],
        mss_bytes: kernel.mss_bytes.into(),
        retransmits: Some(kernel.retransmits),
        sent: (kernel.sent_bytes as f64, kernel.resent_bytes as f64),
        delivery_bit_s: Some(kernel.delivery_rate_bit_s as f64),
        busy: (kernel.busy_s, kernel.receive_window_limited_s, kernel.send_buffer_limited_s),
        window_bytes: kernel.window_bytes,
        is_scaled: Some(kernel.window_scaling),
        ..stream
    }
}

/// The start and end of an interval, seconds; none if they make no sense.
fn span(interval: &Interval) -> Option<(f64, f64)> {
    let (from, to) = (interval.start_s, interval.end_s);
    (from >= 0.0 && from < to && to <= SECONDS_MAX).then_some((from, to))
}

/// The timeline of a direction. Bytes are counted at the receiving end; the kernel's facts come from the sending end.
fn timeline(report: &Report, direction: Direction) -> TransferTimeline {
    let (sender, receiver) = if direction.is_forward() {
        (&report.intervals, &report.far_intervals)
    } else {
        (&report.far_intervals, &report.intervals)
    };
    // If the receiving end reported no intervals, the sender's are nearly the same.
    let counted = if receiver.is_empty() { sender } else { receiver };
    let mut timeline = TransferTimeline::default();
    for interval in counted {
        let Some((from_s, to_s)) = span(interval) else { continue };
        let flow = |flow: &model::v1::probe::tcp::Flow| Flow {
            stream: Some(flow.stream),
            from_s,
            bytes: [flow.bytes as f64, 0.0],
        };
        let flows: Vec<Flow> = interval.flows.iter().filter(|flow| flow.direction == direction).map(flow).collect();
        if !flows.is_empty() {
            timeline.add_sample(from_s, to_s, &flows);
        }
    }
    for interval in sender {
        let Some((from_s, to_s)) = span(interval) else { continue };
        for flow in interval.flows.iter().filter(|flow| flow.direction == direction) {
            if let Some(kernel) = &flow.kernel {
                add_kernel(&mut timeline, flow.stream, from_s, to_s, kernel);
            }
        }
    }
    timeline
}

/// A plausible time, seconds; 0 for any other number.
fn plausible(value: f64) -> f64 {
    if (0.0..=SECONDS_MAX).contains(&value) { value } else { 0.0 }
}

fn add_kernel(timeline: &mut TransferTimeline, stream: u32, from_s: f64, to_s: f64, kernel: &Kernel) {
    let tcp = Tcp {
        stream_s: to_s - from_s,
        busy_s: plausible(kernel.busy_s),
        receive_window_s: plausible(kernel.receive_window_limited_s),
        send_buffer_s: plausible(kernel.send_buffer_limited_s),
        resent_bytes: kernel.resent_bytes as f64,
    };
    timeline.tcp(from_s, to_s, &tcp);
    let rtt_s = plausible(kernel.rtt_s);
    if rtt_s > 0.0 {
        timeline.round_trip(from_s, to_s, rtt_s);
    }
    if let Some(facts) = timeline.facts_of(stream) {
        add_facts(facts, rtt_s, kernel);
    }
}

fn add_facts(facts: &mut StreamFacts, rtt_s: f64, kernel: &Kernel) {
    if rtt_s > 0.0 {
        facts.rtt.add(rtt_s);
    }
    facts.cwnd.add(kernel.cwnd_bytes as f64 / f64::from(kernel.mss_bytes.max(1)));
    facts.delivery_rate.add(kernel.delivery_rate_bit_s as f64);
}

fn expected(result: &DirectionReport) -> Option<Sheet> {
    let term = |term: &model::v1::probe::tcp::Term| {
        vec![term.name.replace('_', " "), BitRate(term.rate_bit_s).to_string(), term.evidence.clone()]
    };
    let rows: Vec<Vec<String>> = result.expected.iter().take(ROWS_MAX).map(term).collect();
    let heads = vec!["by", "at most", "evidence"];
    (!rows.is_empty()).then_some(Sheet { title: "What could be expected".into(), heads, rows })
}

/// Both hosts, side by side.
fn hosts(near: &Use, far: &Use) -> Option<Sheet> {
    let row = |name: &str, show: &dyn Fn(&Use) -> String| vec![name.to_owned(), show(near), show(far)];
    let or_dash = |text: &str| if text.is_empty() { format::NONE.to_owned() } else { text.to_owned() };
    let mut rows = vec![
        row("program", &|host| or_dash(&host.software)),
        row("kernel", &|host| or_dash(&host.kernel)),
        row("processors", &|host| host.processors.to_string()),
        row("processors busy, all programs", &|host| format::percent(host.busy)),
        row("with this test", &|host| format::percent(host.own)),
        row("taken by a hypervisor", &|host| format::percent(host.steal)),
        row("held back by a quota", &|host| format::percent(host.held_back)),
        row("congestion control", &|host| or_dash(&host.congestion)),
    ];
    let mut settings: Vec<&String> = near.settings.keys().chain(far.settings.keys()).collect();
    settings.sort_unstable();
    settings.dedup();
    for key in settings.into_iter().take(ROWS_MAX) {
        rows.push(row(key, &|host| {
            host.settings.get(key).map_or_else(|| format::NONE.to_owned(), |value| or_dash(value))
        }));
    }
    let is_known = near.processors > 0 || far.processors > 0;
    is_known.then_some(Sheet { title: "Hosts".into(), heads: vec!["", "this end", "other end"], rows })
}

#[cfg(test)]
mod tests;
