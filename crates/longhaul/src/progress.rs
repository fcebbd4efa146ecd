//! The progress of a job in one line, however many files it has: bytes, rate now and on average, files, time left. A test
//! from memory to memory prints a line every second instead.

mod intervals;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::Progress;
use model::duration;
use model::name::{RelPath, show_text};
use model::units::{BitRate, Bytes};
use model::v1;
use pilot::eta::Eta;

use crate::printer::Printer;
use intervals::Intervals;

/// The time over which the rate "now" is averaged: long enough to be steady, short enough to show a stall.
const WINDOW: Duration = Duration::from_secs(3);

/// The greatest width of a progress line.
const COLUMNS: usize = 79;
/// The least part of a name that is worth showing, in columns.
const NAME_COLUMNS_MIN: usize = 8;

/// The end of a path in `room` columns; the end says more than the beginning.
fn shortened(path: &str, room: usize) -> Option<String> {
    let length = path.chars().count();
    match length {
        0 => None,
        _ if length <= room => Some(path.to_owned()),
        _ if room < NAME_COLUMNS_MIN => None,
        _ => Some(format!("…{}", path.chars().skip(length - room + 1).collect::<String>())),
    }
}

/// Shows a running job.
pub struct Display<'a> {
    printer: &'a Printer,
    started: Instant,
    samples: VecDeque<(Instant, u64)>,
    bar: Option<ProgressBar>,
    /// When the last line was printed.
    printed_at: Instant,
    /// The time until the next line.
    line_interval: Duration,
    intervals: Option<Intervals>,
    /// The file that is being copied.
    file: Option<RelPath>,
}

impl<'a> Display<'a> {
    /// A display that starts now. Where stderr is not a terminal, a line is printed at growing intervals, from 1 s to 60 s; as
    /// JSON, every second.
    pub fn new(printer: &'a Printer, is_test: bool) -> Display<'a> {
        let now = Instant::now();
        let bar = (printer.is_watched() && !is_test).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            bar.set_style(ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        let intervals = (printer.is_chatty() && is_test).then(Intervals::default);
        let line_interval = Duration::from_secs(1);
        let samples = VecDeque::new();
        Display { printer, started: now, samples, bar, printed_at: now, line_interval, intervals, file: None }
    }

    /// Sets the file that is being copied.
    pub fn set_file(&mut self, file: Option<RelPath>) {
        self.file = file;
    }

    /// Shows the job's numbers; called about ten times a second.
    pub fn update(&mut self, progress: &Progress, waiting_for: &str, eta: Option<Eta>) {
        let now = Instant::now();
        self.samples.push_back((now, progress.bytes_sent()));
        while self.samples.front().is_some_and(|(at, _)| now - *at > WINDOW) && self.samples.len() > 2 {
            self.samples.pop_front();
        }
        if let Some(intervals) = &mut self.intervals {
            if let Some(line) = intervals.update(now, progress.bytes_arrived, waiting_for) {
                Printer::stderr_line(&line);
            }
            return;
        }
        if let Some(bar) = &self.bar {
            bar.set_message(if waiting_for.is_empty() {
                self.line(progress, eta)
            } else {
                show_text(&format!("waiting: {waiting_for}"))
            });
            return;
        }
        if now - self.printed_at < self.line_interval {
            return;
        }
        self.printed_at = now;
        if self.printer.is_json() {
            self.printer.object(&self.event(progress, waiting_for, eta));
        } else if self.printer.is_chatty() {
            let text =
                if waiting_for.is_empty() { self.text(progress, eta) } else { format!("waiting: {waiting_for}") };
            Printer::note(&text);
            self.line_interval = (self.line_interval * 3 / 2).min(Duration::from_secs(60));
        }
    }

    /// Shows a job that another process runs.
    pub fn show(&mut self, job: &v1::Transfer) {
        let progress = Progress {
            bytes_offered: job.bytes_total,
            files_offered: job.files_total,
            bytes_arrived: job.bytes,
            bytes_in_place: job.bytes.saturating_sub(job.sent_bytes),
            files_settled: job.files,
            scanned: job.scanned,
            ..Progress::default()
        };
        let duration = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        let left = job.eta_s.and_then(duration);
        let error = job.eta_error_s.and_then(duration);
        let eta = left.zip(error).map(|(left, error)| Eta { left, error });
        self.update(&progress, &job.waiting_for, eta);
    }

    /// Prints lines above the progress line.
    pub fn print_above(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Removes the progress line, before the receipt is printed. `bytes` is the number of bytes that arrived in all.
    pub fn finish(mut self, bytes: u64) {
        if let Some(line) = self.intervals.as_mut().and_then(|intervals| intervals.last(Instant::now(), bytes)) {
            Printer::stderr_line(&line);
        }
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn rate_now(&self) -> BitRate {
        match (self.samples.front(), self.samples.back()) {
            (Some((from, before)), Some((to, after))) => {
                BitRate::mean(Bytes(after.saturating_sub(*before)), (*to - *from).as_secs_f64())
            }
            _ => BitRate(0),
        }
    }

    /// A line of at most [`COLUMNS`] columns: the file's name gets the room that the numbers leave.
    fn line(&self, progress: &Progress, eta: Option<Eta>) -> String {
        let Progress { bytes_arrived, bytes_offered, files_settled, files_offered, scanned, .. } = *progress;
        if progress.is_endless() {
            return self.text(progress, eta);
        }
        let more = if scanned { "" } else { "+" };
        let percent = if scanned { bytes_arrived * 100 / bytes_offered.max(1) } else { 0 };
        let mut line = if scanned { format!("{percent:3}%  ") } else { String::new() };
        line += &format!("{} of {}{more}  {}", Bytes(bytes_arrived), Bytes(bytes_offered), self.rate_now());
        line += &match eta {
            Some(Eta { left, .. }) => format!("  {} left", duration::show(left)),
            None => String::new(),
        };
        let files = format!("  {files_settled}/{files_offered}{more} files");
        if files_offered > 1 && line.len() + files.len() <= COLUMNS {
            line += &files;
        }
        let name = self.file.as_ref().map(RelPath::to_string).unwrap_or_default();
        let room = COLUMNS.saturating_sub(line.chars().count() + 2);
        match shortened(&name, room) {
            Some(name) => format!("{line}  {name}"),
            None => line,
        }
    }

    /// The numbers in full, for a line that stays: with the mean rate and the error of the time left.
    fn text(&self, progress: &Progress, eta: Option<Eta>) -> String {
        let elapsed = self.started.elapsed();
        let mean = BitRate::mean(Bytes(progress.bytes_sent()), elapsed.as_secs_f64());
        let more = if progress.scanned { "" } else { "+" };
        let percent = match progress.bytes_offered {
            total if progress.scanned && total > 0 => format!("{:3}%  ", progress.bytes_arrived * 100 / total),
            _ => String::new(),
        };
        if progress.is_endless() {
            return format!("{}  {} now, {mean} mean", Bytes(progress.bytes_arrived), self.rate_now());
        }
        let left = match eta {
            Some(Eta { left, error }) => format!("  {} left (± {})", duration::show(left), duration::show(error)),
            None if !progress.scanned => "  still scanning".into(),
            None => String::new(),
        };
        format!(
            "{percent}{} of {}{more}  {} now, {mean} mean  {}/{}{more} files{left}",
            Bytes(progress.bytes_arrived),
            Bytes(progress.bytes_offered),
            self.rate_now(),
            progress.files_settled,
            progress.files_offered,
        )
    }

    fn event(&self, progress: &Progress, waiting_for: &str, eta: Option<Eta>) -> v1::Progress {
        let endless = progress.is_endless();
        v1::Progress {
            v: 1,
            event: "progress",
            bytes: progress.bytes_arrived,
            bytes_total: if endless { progress.bytes_arrived } else { progress.bytes_offered },
            files: progress.files_settled,
            files_total: progress.files_offered,
            scanned: progress.scanned && !endless,
            rate_bit_s: self.rate_now().0,
            eta_s: eta.map(|eta| eta.left.as_secs_f64()),
            eta_error_s: eta.map(|eta| eta.error.as_secs_f64()),
            seconds: self.started.elapsed().as_secs_f64(),
            waiting_for: waiting_for.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(bytes: u64, of: u64, files: u64) -> Progress {
        Progress {
            bytes_arrived: bytes,
            bytes_offered: of,
            files_settled: 3,
            files_offered: files,
            scanned: true,
            ..Progress::default()
        }
    }

    #[test]
    fn a_progress_line_is_shorter_than_80_columns() {
        let printer = Printer::new(false, true);
        let mut display = Display::new(&printer, false);
        let eta = Some(Eta { left: Duration::from_secs(86_399), error: Duration::from_secs(9) });
        let long = RelPath::parse("run7/".repeat(40).trim_end_matches('/').as_bytes()).unwrap();
        for name in
            [None, RelPath::parse(b"run7/a.fits").ok(), Some(long), RelPath::parse("é".repeat(60).as_bytes()).ok()]
        {
            display.set_file(name.clone());
            for (bytes, of, files) in
                [(0, 1, 1), (999_900_000_000, 999_990_000_000_000, 10_000_000), (5_000_000, 12_000_000, 7)]
            {
                for eta in [eta, None] {
                    let line = display.line(&progress(bytes, of, files), eta);
                    assert!(line.chars().count() < 80, "{line}");
                    assert!(eta.is_none() || line.contains(" left"), "{line}");
                }
            }
            let line = display.line(&progress(5_000_000, 12_000_000, 7), eta);
            assert!(name.is_none_or(|name| line.ends_with(&name.to_string()[name.to_string().len() - 4..])), "{line}");
        }
    }
}
