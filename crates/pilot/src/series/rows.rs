//! Reads a series, row after row. The file may have been cut short, edited, or written by a stranger. A cell that is not a number, or
//! a number that no job can have, is reported by its line and column; the other rows are read all the same.
//!
//! What this module does not know: how the numbers of several rows belong together. It holds one row at a time.

use std::io::{self, BufRead, Read};
use std::time::Duration;

use model::account::{Stage, StageTimes};

use super::COLUMNS;

/// The longest line. The rows that [`RowWriter`](super::RowWriter) writes have about 200 bytes.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The number of columns.
const COLUMN_COUNT: usize = 32;
/// The number of columns that every series has; later columns may be missing.
const REQUIRED_COLUMNS: usize = 27;
/// The longest name. The id of a job has 36 characters.
const NAME_CHARS_MAX: usize = 40;
/// The longest time: thirty years.
const SECONDS_MAX: f64 = 1e9;
/// The largest number: more than any rate, count or time; sums of a billion of them are still finite.
const NUMBER_MAX: f64 = 1e18;

/// Why a row, or the whole series, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// A line is malformed.
    #[error("line {line}: {what}")]
    Line {
        /// The number of the line, from 1.
        line: u64,
        /// The fault in it.
        what: String,
    },
    /// The file itself cannot be read.
    #[error("cannot be read")]
    Io(#[from] io::Error),
}

/// One row: a stream, or all threads of the other end, since its last row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Seconds since the start of the job.
    pub time_s: f64,
    /// The threads' time by stage. A series without processor columns has no processor times.
    pub spent: StageTimes,
    /// The kernel's counters of the stream; none for the other end.
    pub kernel: Option<Kernel>,
    /// The job, where the row names it.
    pub job: Option<String>,
}

/// The kernel's counters of a stream. Counts are since the stream began; times and rates are as in [`COLUMNS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// The stream's number.
    pub stream: u32,
    /// The mean rate since the last row.
    pub delivered_bit_s: f64,
    /// Smoothed round-trip time.
    pub rtt_s: f64,
    /// Smallest round-trip time.
    pub min_rtt_s: f64,
    /// Congestion window.
    pub cwnd_segments: u64,
    /// Segment size.
    pub mss_bytes: u64,
    /// Segments in flight.
    pub unacked_segments: u64,
    /// The kernel's estimate of the path's rate.
    pub delivery_rate_bit_s: f64,
    /// The most that the stream may send; none while congestion control alone decides.
    pub pace_bit_s: Option<f64>,
    /// Bytes sent, including those sent again.
    pub sent_bytes: u64,
    /// Bytes sent again.
    pub resent_bytes: u64,
    /// Time with data in flight or waiting to be sent.
    pub busy_s: f64,
    /// The part of that time with the receive window full.
    pub receive_window_limited_s: f64,
    /// The part of that time with the send buffer full.
    pub send_buffer_limited_s: f64,
    /// The window that the receiver offers.
    pub window_bytes: u64,
    /// Bytes that wait in the socket, unsent.
    pub unsent_bytes: u64,
    /// Bytes that have arrived and were not read yet.
    pub unread_bytes: u64,
    /// Congestion control.
    pub congestion: String,
    /// Bytes received; 0 where the series lacks the column.
    pub received_bytes: u64,
}

/// The rows of a series.
#[derive(Debug)]
pub struct Rows<R> {
    input: R,
    /// The position of each of [`COLUMNS`] in a row.
    positions: Vec<Option<usize>>,
    line: u64,
    text: Vec<u8>,
    is_over: bool,
}

fn names(head: &str) -> Vec<&str> {
    head.trim_start_matches('\u{feff}').split(',').map(str::trim).collect()
}

/// Whether a file that begins with this line is a series.
pub fn is_head(line: &str) -> bool {
    let names = names(line);
    names.contains(&"time_s") && names.contains(&"stream")
}

impl<R: BufRead> Rows<R> {
    /// Reads the header. Columns may stand in any order, with unknown ones between them.
    ///
    /// # Errors
    /// The file cannot be read, or its first line is not the header of a series.
    pub fn new(mut input: R) -> Result<Rows<R>, RowError> {
        let mut text = Vec::new();
        let wrong = |what: String| RowError::Line { line: 1, what };
        match read_line(&mut input, &mut text)? {
            LineKind::Whole | LineKind::Last => {}
            LineKind::TooLong => return Err(wrong(format!("longer than {LINE_BYTES_MAX} bytes"))),
            LineKind::Nothing => return Err(wrong("is empty".into())),
        }
        let head = std::str::from_utf8(&text).map_err(|_| wrong("is not text".into()))?;
        let names = names(head);
        let position = |name| names.iter().position(|known| *known == name);
        let positions: Vec<Option<usize>> = COLUMNS.split(',').map(position).collect();
        if let Some((name, _)) =
            COLUMNS.split(',').zip(&positions).take(REQUIRED_COLUMNS).find(|(_, position)| position.is_none())
        {
            return Err(wrong(format!("has no column {name}, which every series has")));
        }
        Ok(Rows { input, positions, line: 1, text, is_over: false })
    }

    /// Whether the series has the columns of processor times.
    pub fn has_processor_times(&self) -> bool {
        self.positions[REQUIRED_COLUMNS + 1..COLUMN_COUNT - 1].iter().all(Option::is_some)
    }
}

impl<R: BufRead> Iterator for Rows<R> {
    type Item = Result<Row, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            self.line += 1;
            let line = self.line;
            let wrong = |what: String| Some(Err(RowError::Line { line, what }));
            let kind = match read_line(&mut self.input, &mut self.text) {
                Ok(kind) => kind,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error.into()));
                }
            };
            self.is_over = matches!(kind, LineKind::Last | LineKind::Nothing);
            match (kind, std::str::from_utf8(&self.text)) {
                (LineKind::Nothing, _) => return None,
                (LineKind::TooLong, _) => return wrong(format!("longer than {LINE_BYTES_MAX} bytes")),
                (_, Err(_)) => return wrong("is not text".into()),
                (_, Ok(text)) if text.trim().is_empty() => {}
                (_, Ok(text)) => match row(&self.positions, text.trim_end(), kind == LineKind::Last) {
                    Ok(row) => return Some(Ok(row)),
                    Err(what) => return wrong(what),
                },
            }
        }
        None
    }
}

/// What [`read_line`] found.
#[derive(Clone, Copy, PartialEq)]
enum LineKind {
    Whole,
    /// It has no line end: it may have been cut short.
    Last,
    TooLong,
    Nothing,
}

/// Reads one line of at most [`LINE_BYTES_MAX`]; the rest of a longer line is skipped.
fn read_line(input: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<LineKind> {
    text.clear();
    input.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', text)?;
    match text.last() {
        None => Ok(LineKind::Nothing),
        Some(b'\n') => Ok(LineKind::Whole),
        Some(_) if text.len() < LINE_BYTES_MAX => Ok(LineKind::Last),
        Some(_) => loop {
            let rest = input.fill_buf()?;
            let end = rest.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(rest.len(), |end| end + 1);
            let is_over = end.is_some() || rest.is_empty();
            input.consume(used);
            if is_over {
                return Ok(LineKind::TooLong);
            }
        },
    }
}

/// The cells of a row, taken in the order of [`COLUMNS`].
struct Cells<'a> {
    positions: &'a [Option<usize>],
    cells: Vec<&'a str>,
    next: usize,
}

impl<'a> Cells<'a> {
    /// The text of the next cell; empty where the series lacks the column.
    fn text(&mut self) -> &'a str {
        let position = self.positions.get(self.next).copied().flatten();
        self.next += 1;
        position.and_then(|position| self.cells.get(position)).map_or("", |cell| cell.trim())
    }

    fn wrong(&self, text: &str) -> String {
        let name = COLUMNS.split(',').nth(self.next - 1).unwrap_or_default();
        format!("{name} is {:?}, which is no number that a job can have", short(text))
    }

    /// The number in the next cell; none where the cell is empty.
    fn number_if_any(&mut self) -> Result<Option<f64>, String> {
        let text = self.text();
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse::<f64>().ok().filter(|number| (0.0..=NUMBER_MAX).contains(number));
        // "-0" is 0.
        number.map(|number| Some(number.abs())).ok_or_else(|| self.wrong(text))
    }

    fn number(&mut self) -> Result<f64, String> {
        self.number_if_any()?.ok_or_else(|| self.wrong(""))
    }

    fn seconds(&mut self) -> Result<f64, String> {
        let text = self.text();
        let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
        seconds.map(f64::abs).ok_or_else(|| self.wrong(text))
    }

    fn count(&mut self) -> Result<u64, String> {
        let text = self.text();
        text.parse().map_err(|_| self.wrong(text))
    }

    /// The time of so many records, from a cell with the time per record.
    fn time(&mut self, records: u64) -> Result<Duration, String> {
        let ms = self.number_if_any()?.unwrap_or(0.0);
        let seconds = ms * 1e-3 * records.max(1) as f64;
        if seconds <= SECONDS_MAX {
            Ok(Duration::from_secs_f64(seconds))
        } else {
            Err(self.wrong(&format!("{ms} for each of {records}")))
        }
    }
}

/// A name or id, cut at [`NAME_CHARS_MAX`]: it is kept, and shown to people.
fn short(text: &str) -> String {
    text.chars().take(NAME_CHARS_MAX).collect()
}

fn row(positions: &[Option<usize>], text: &str, is_last: bool) -> Result<Row, String> {
    let cells: Vec<&str> = text.split(',').collect();
    let wanted = positions.iter().flatten().max().map_or(0, |last| last + 1);
    if cells.len() < wanted {
        let why = if is_last { "the file ends in the middle of it" } else { "some are missing" };
        return Err(format!("{} columns of {wanted}: {why}", cells.len()));
    }
    let mut cells = Cells { positions, cells, next: 0 };
    let time_s = cells.seconds()?;
    let stream = match cells.text() {
        "far" => None,
        number => Some(number.parse::<u32>().map_err(|_| cells.wrong(number))?),
    };
    let mut spent = StageTimes { records: cells.count()?, ..StageTimes::default() };
    for stage in [Stage::Storage, Stage::Compute, Stage::Socket, Stage::Pace, Stage::Idle] {
        spent.wall[stage as usize] = cells.time(spent.records)?;
    }
    for stage in [Stage::Storage, Stage::Socket] {
        spent.longest[stage as usize] = cells.time(1)?;
    }
    let kernel = match stream {
        Some(stream) => Some(kernel(stream, &mut cells)?),
        None => None,
    };
    cells.next = REQUIRED_COLUMNS + 1;
    for stage in [Stage::Storage, Stage::Compute, Stage::Socket] {
        spent.cpu[stage as usize] = cells.time(spent.records)?;
    }
    let job = Some(cells.text()).filter(|job| !job.is_empty()).map(short);
    Ok(Row { time_s, spent, kernel, job })
}

/// The kernel's counters. The fields are in the order of the columns: each takes the next cell.
fn kernel(stream: u32, cells: &mut Cells<'_>) -> Result<Kernel, String> {
    Ok(Kernel {
        stream,
        delivered_bit_s: cells.number()? * 1e6,
        rtt_s: cells.number()? * 1e-3,
        min_rtt_s: cells.number()? * 1e-3,
        cwnd_segments: cells.count()?,
        mss_bytes: cells.count()?,
        unacked_segments: cells.count()?,
        delivery_rate_bit_s: cells.number()? * 1e6,
        pace_bit_s: cells.number_if_any()?.map(|mbit_s| mbit_s * 1e6),
        sent_bytes: cells.count()?,
        resent_bytes: cells.count()?,
        busy_s: cells.seconds()?,
        receive_window_limited_s: cells.seconds()?,
        send_buffer_limited_s: cells.seconds()?,
        window_bytes: cells.count()?,
        unsent_bytes: cells.count()?,
        unread_bytes: cells.count()?,
        congestion: short(cells.text()),
        received_bytes: match cells.text() {
            "" => 0,
            text => text.parse().map_err(|_| cells.wrong(text))?,
        },
    })
}

#[cfg(test)]
mod tests;
