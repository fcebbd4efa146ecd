//! Makes the story of a transfer from its receipt, its series and the progress that its command printed, as far as they exist.

use model::units::{BitRate, Bytes};
use model::v1::{Receipt, State};

use crate::format;
use crate::read::Point;
use crate::receipt;
use crate::series::Series;
use crate::story::{Misses, Sheet, Story, Stream, Tone, limit_shares, limit_word, limit_words};
use crate::timeline::{Flow, TransferTimeline};

/// The largest number of sources that are named; a list of files may be long.
const SOURCES_NAMED_MAX: usize = 5;
/// The largest number of failures that are named: as many as a receipt of this program has.
const MISSES_NAMED_MAX: usize = 1000;

/// The text with a capital letter.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn sources(receipt: &Receipt) -> String {
    let named = receipt.source.iter().take(SOURCES_NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match receipt.source.len().saturating_sub(SOURCES_NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The whole story of a job that has ended.
pub fn ended(receipt: Receipt, points: &[Point], series: Option<Series>) -> Story {
    let tone = match receipt.state {
        State::Done => Tone::Good,
        State::Partial | State::Interrupted => Tone::Part,
        State::Failed => Tone::Bad,
    };
    let limited_by = receipt::part(&receipt.limited_by.part).to_owned();
    let title = format!("{} → {}", sources(&receipt), receipt.target);
    let headline = sentence(&receipt::headline(&receipt));
    let limited = match receipt.limited_by.part.as_str() {
        "unknown" | "" => String::new(),
        _ => format!(" Limited by {limited_by}."),
    };
    let mut story = Story::new(title, tone, format!("{headline}.{limited}"));
    story.evidence = receipt.limited_by.evidence.clone();
    story.remedy = receipt.limited_by.remedy.clone();
    if let Some(error) = &receipt.error {
        story.remarks.push(format!("It ended with: {error}"));
    }
    story.comparison.state = state(&receipt);
    story.comparison.bytes = Some(receipt.bytes as f64);
    story.comparison.files = Some(receipt.files);
    story.comparison.seconds = Some(receipt.seconds);
    story.comparison.rate_bit_s = Some(receipt.rate_bit_s as f64);
    story.comparison.streams = Some(receipt.streams.iter().filter(|stream| stream.id > 0).count() as u64);
    story.comparison.limited_by = limited_by;
    story.streams = receipt.streams.iter().map(Stream::from).collect();
    story.sheets.push(phases(&receipt));
    story.sheets.extend(ends(&receipt));
    story.timeline = Some(of_points(points)).filter(|timeline| timeline.end_s() > 0.0);
    if let Some(series) = series {
        add_series(&mut story, series);
    }
    story.numbers = numbers(&receipt, story.timeline.as_ref());
    let mut named = receipt.failures;
    let all = (named.len() as u64).max(receipt.failed.saturating_add(receipt.special));
    named.truncate(MISSES_NAMED_MAX);
    story.misses = Misses { more: all - named.len() as u64, named };
    story
}

fn state(receipt: &Receipt) -> String {
    let word = match receipt.state {
        State::Done if receipt.dry_run => "dry run",
        State::Done => "done",
        State::Partial => "in part",
        State::Failed => "failed",
        State::Interrupted => "interrupted",
    };
    format!("{word} ({})", receipt.exit)
}

fn numbers(receipt: &Receipt, timeline: Option<&TransferTimeline>) -> Vec<(&'static str, String)> {
    let size = |bytes: u64| format!("{} ({bytes} bytes)", Bytes(bytes));
    let mut out = vec![
        ("Ended", state(receipt)),
        ("From", sources(receipt)),
        ("To", receipt.target.clone()),
        ("Moved", size(receipt.bytes)),
        ("Files", receipt.files.to_string()),
        ("Time", format::seconds(receipt.seconds)),
        ("Mean rate", BitRate(receipt.rate_bit_s).to_string()),
    ];
    let highest = timeline.map(|timeline| timeline.rates().iter().map(|mean| mean.high).fold(0.0, f64::max));
    out.extend(highest.filter(|rate| *rate > 0.0).map(|rate| ("Highest rate seen", format::rate(rate))));
    let counts = [
        ("Directories", receipt.directories),
        ("Links", receipt.links),
        ("Removed at the target", receipt.deleted),
        ("Left out (FIFOs, sockets, devices)", receipt.special),
        ("Failed", receipt.failed),
    ];
    out.extend(counts.into_iter().filter(|(_, many)| *many > 0).map(|(name, many)| (name, many.to_string())));
    if receipt.skipped > 0 {
        out.push((
            "There already",
            format!("{} in {}", Bytes(receipt.skipped_bytes), receipt::count(receipt.skipped, "file")),
        ));
    }
    if receipt.resumed_bytes > 0 {
        out.push(("There from an earlier attempt", size(receipt.resumed_bytes)));
    }
    out.push(("Sent more than once", size(receipt.resent_bytes)));
    out.push(("Verified at both ends by", verified(receipt)));
    out.push((
        "Programs",
        format!("{} here, {} there", or_dash(&receipt.versions.client), or_dash(&receipt.versions.node)),
    ));
    out.push(("Protocol", receipt.versions.protocol.to_string()));
    out.push(("Job", receipt.transfer.clone()));
    out
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { format::NONE } else { text }
}

fn verified(receipt: &Receipt) -> String {
    let digest = |digest: &model::v1::Verified| match &digest.value {
        Some(value) => format!("{} {value}", digest.algorithm),
        None => format!("{} ({})", digest.algorithm, receipt::count(digest.files, "file")),
    };
    if receipt.digests.is_empty() {
        "nothing".into()
    } else {
        receipt.digests.iter().take(20).map(digest).collect::<Vec<_>>().join(", ")
    }
}

fn phases(receipt: &Receipt) -> Sheet {
    let phases = &receipt.phases;
    let row = |(name, seconds, what): (&str, f64, &str)| {
        vec![name.to_owned(), format::seconds(seconds), format::part_of(seconds, receipt.seconds), what.to_owned()]
    };
    let rows = [
        ("connect", phases.connect, "name, TCP and TLS"),
        ("scan", phases.scan, "until the source was known in full"),
        ("transfer", phases.transfer, "from the first block until the last"),
        ("finish", phases.finish, "until the last file was verified and named"),
    ];
    Sheet {
        title: "Phases; scan and transfer overlap".into(),
        heads: vec!["phase", "time", "of all", "what it is"],
        rows: rows.map(row).into(),
    }
}

/// Both hosts, side by side.
fn ends(receipt: &Receipt) -> Option<Sheet> {
    // A receipt has two ends by design; if it has more, only two are shown.
    let ends: Vec<_> = receipt.ends.iter().take(2).collect();
    let heads = ends.iter().map(|end| if end.here { "this end" } else { "other end" });
    let heads = std::iter::once("").chain(heads).collect();
    let row = |name: &str, show: &dyn Fn(&model::v1::End) -> String| {
        std::iter::once(name.to_owned()).chain(ends.iter().map(|end| show(end))).collect::<Vec<String>>()
    };
    let sizes = |bytes: u64| if bytes > 0 { Bytes(bytes).to_string() } else { format::NONE.into() };
    let rows = vec![
        row("role", &|end| if end.sends { "sent".into() } else { "received".into() }),
        row("threads", &|end| end.threads.to_string()),
        row("processors", &|end| end.processors.to_string()),
        row("processors busy, all programs", &|end| format::percent(end.busy)),
        row("threads' time: processor", &|end| format::percent(end.cpu)),
        row("waiting for files", &|end| format::percent(end.storage)),
        row("waiting for the socket", &|end| format::percent(end.socket)),
        row("waiting for a limit", &|end| format::percent(end.pace)),
        row("waiting for something to do", &|end| format::percent(end.idle)),
        row("largest buffer to receive", &|end| sizes(end.receive_buffer_max_bytes)),
        row("largest buffer to send", &|end| sizes(end.send_buffer_max_bytes)),
        row("scales windows", &|end| if end.window_scaling { "yes".into() } else { "no".into() }),
    ];
    (!ends.is_empty()).then_some(Sheet { title: "Hosts".into(), heads, rows })
}

/// The timeline from the progress that the command printed once a second.
fn of_points(points: &[Point]) -> TransferTimeline {
    let mut timeline = TransferTimeline::default();
    let mut before = Point { seconds: 0.0, bytes: 0 };
    for point in points {
        // Another attempt may count from a smaller number.
        let bytes = [point.bytes.saturating_sub(before.bytes) as f64, 0.0];
        if point.seconds > before.seconds {
            timeline.add_sample(before.seconds, point.seconds, &[Flow { stream: None, from_s: before.seconds, bytes }]);
            before = *point;
        }
    }
    timeline
}

/// Adds the timeline of a series, and the facts about streams that the receipt lacks.
fn add_series(story: &mut Story, series: Series) {
    story.remarks.extend(remarks(&series));
    let timeline = series.timeline;
    let sends = timeline.sends();
    for (id, facts) in timeline.streams() {
        match story.streams.iter_mut().find(|stream| stream.id == id) {
            // The kernel's facts of the receiving end are not about the data.
            Some(stream) if !sends => stream.seen = facts.seen(),
            Some(stream) => *stream = std::mem::take(stream).with_series(facts),
            None => {
                let note = if story.comparison.state.is_empty() { "" } else { "of an attempt before the last" };
                story.streams.push(Stream { note, ..Stream::of_series(id, facts, sends) });
            }
        }
    }
    story.streams.sort_by_key(|stream| stream.id);
    if series.rows > 0 {
        story.timeline = Some(timeline);
    }
}

fn remarks(series: &Series) -> Vec<String> {
    let mut out = Vec::new();
    if series.rows == 0 {
        out.push("The series has no rows: the job ended before the first was due.".to_owned());
    }
    if series.unreadable > 0 {
        let rows = receipt::count(series.unreadable, "row");
        out.push(format!("{rows} of the series could not be read, the first: {}.", series.first_error));
    }
    if series.lacks_processor_times {
        out.push("The series has no processor times: it does not show whether a thread works or waits.".to_owned());
    }
    if series.timeline.is_crowded() {
        out.push("The series has more streams than are shown here; rates count all of them.".to_owned());
    }
    out
}

/// The story of a series without its receipt.
pub fn alone(file: &str, series: Series) -> Story {
    let timeline = &series.timeline;
    let bytes = timeline.bytes()[usize::from(!timeline.sends())];
    let end_s = timeline.end_s();
    let moments = timeline.moments();
    let limits = limit_shares(&moments);
    let moved = format!("A series of {}: {} on streams", format::seconds(end_s), format::bytes(bytes));
    let (verdict, limited_by) = match limits.first() {
        Some((most, _)) => (format!("{moved}. Limited most of all by {}.", limit_word(*most)), limit_word(*most)),
        None => (format!("{moved}."), ""),
    };
    let title = series.job.clone().map_or_else(|| file.to_owned(), |job| format!("Job {job}"));
    let mut story = Story::new(title, Tone::Plain, verdict);
    if !limits.is_empty() {
        story.evidence = format!("of the time with samples: {}", limit_words(&moments));
    }
    story.comparison.seconds = Some(end_s);
    story.comparison.bytes = Some(bytes);
    story.comparison.rate_bit_s = (end_s > 0.0).then(|| bytes * 8.0 / end_s);
    story.comparison.limited_by = limited_by.to_owned();
    story.comparison.streams = Some(timeline.streams().count() as u64);
    story.numbers = vec![
        ("Moved on streams", format::bytes(bytes)),
        ("Time", format::seconds(end_s)),
        ("Mean rate", format::maybe(story.comparison.rate_bit_s, format::rate)),
        ("This end", if timeline.sends() { "sent".into() } else { "received".into() }),
        ("Rows", series.rows.to_string()),
    ];
    story.remarks.push("No receipt of this job was given: how it ended is not known.".into());
    add_series(&mut story, series);
    story
}

/// The story of a command that ended with an error and without a receipt.
pub fn failed(file: &str, message: &str, points: &[Point]) -> Story {
    let mut story = Story::new(file.to_owned(), Tone::Bad, "Failed before there was a receipt.".into());
    story.evidence = message.to_owned();
    story.comparison.state = "failed".into();
    story.timeline = Some(of_points(points)).filter(|timeline| timeline.end_s() > 0.0);
    story
}

/// The story of a command that was still running when its output was written.
pub fn unfinished(file: &str, points: &[Point]) -> Story {
    let last = points.last().copied().unwrap_or(Point { seconds: 0.0, bytes: 0 });
    let moved = format::bytes(last.bytes as f64);
    let verdict = format!("Still running when this was written: {moved} after {}.", format::seconds(last.seconds));
    let mut story = Story::new(file.to_owned(), Tone::Plain, verdict);
    story.comparison.state = "unknown".into();
    story.comparison.bytes = Some(last.bytes as f64);
    story.comparison.seconds = Some(last.seconds);
    story.timeline = Some(of_points(points)).filter(|timeline| timeline.end_s() > 0.0);
    story
}
