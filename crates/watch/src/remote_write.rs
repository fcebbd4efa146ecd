//! Prometheus remote-write 1.0: all measurements are sent to a receiver as well, for collaborations that outgrow one machine.
//!
//! Samples are gauges and counts of one measurement each, at the time of its beginning. Rows that cannot be sent wait, within a bound; the oldest are dropped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use web::{Client, Dialer, Headers, HttpUrl, Method};

use crate::archive::Row;
use crate::archive::store::SeriesKey;

/// The largest number of rows that wait: some 50 MB.
const WAITING_MAX: usize = 200_000;
/// Rows of one request.
const BATCH_ROWS: usize = 2_000;
/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Sends rows to a receiver.
pub struct RemoteWrite {
    url: String,
    dialer: Dialer,
    waiting: VecDeque<(SeriesKey, Row)>,
    retry_at: Instant,
    dropped: u64,
}

/// A field of a message that has a length: its number and its bytes.
fn field(message: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    message.push(number << 3 | 2);
    varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// `TimeSeries { labels = 1: Label { name = 1, value = 2 }, samples = 2: Sample { value = 1, timestamp = 2 } }`.
fn time_series(labels: &[(&str, &str)], value: f64, at: i64) -> Vec<u8> {
    let mut series = Vec::new();
    for (name, value) in labels {
        let mut label = Vec::new();
        field(&mut label, 1, name.as_bytes());
        field(&mut label, 2, value.as_bytes());
        field(&mut series, 1, &label);
    }
    let mut sample = vec![1 << 3 | 1];
    sample.extend_from_slice(&value.to_le_bytes());
    sample.push(2 << 3);
    varint(&mut sample, at as u64);
    field(&mut series, 2, &sample);
    series
}

/// `WriteRequest { timeseries = 1 }` of rows. Labels are in the order of their names, as the protocol requires.
fn write_request<'r>(rows: impl Iterator<Item = &'r (SeriesKey, Row)>) -> Vec<u8> {
    let mut request = Vec::new();
    for (key, row) in rows {
        for (column, value) in key.columns().iter().zip(&row.values) {
            let Some(value) = value else { continue };
            let name = format!("longhaul_watch_{}", column.name);
            let labels = [("__name__", name.as_str()), ("source", &key.from), ("target", &key.to), ("test", &key.test)];
            field(&mut request, 1, &time_series(&labels, *value as f64, row.at));
        }
    }
    request
}

impl RemoteWrite {
    /// A sender to the receiver at a URL.
    pub fn new(url: &str, dialer: Dialer) -> RemoteWrite {
        RemoteWrite { url: url.to_owned(), dialer, waiting: VecDeque::new(), retry_at: Instant::now(), dropped: 0 }
    }

    /// Queues a row.
    pub fn push(&mut self, key: SeriesKey, row: Row) {
        self.waiting.push_back((key, row));
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
            self.dropped += 1;
        }
    }

    /// Sends the rows that wait.
    pub fn send(&mut self) {
        while !self.waiting.is_empty() && self.retry_at <= Instant::now() {
            let count = self.waiting.len().min(BATCH_ROWS);
            match self.post(count) {
                Ok(()) => drop(self.waiting.drain(..count)),
                Err(why) => {
                    tracing::warn!(
                        why,
                        waiting = self.waiting.len(),
                        dropped = self.dropped,
                        "remote-write fails; the rows are sent again later"
                    );
                    self.retry_at = Instant::now() + RETRY_PAUSE;
                }
            }
        }
    }

    fn post(&self, count: usize) -> Result<(), String> {
        let plain = write_request(self.waiting.iter().take(count));
        let body = snap::raw::Encoder::new().compress_vec(&plain).map_err(|error| error.to_string())?;
        let url = HttpUrl::parse(&self.url).map_err(|error| error.to_string())?;
        let with_causes = |error: web::ClientError| model::fault::with_causes(&error);
        let mut client = Client::new(&self.dialer, &url).map_err(with_causes)?;
        let headers = Headers::new()
            .with("Content-Type", "application/x-protobuf")
            .with("Content-Encoding", "snappy")
            .with("X-Prometheus-Remote-Write-Version", "0.1.0")
            .with("Content-Length", body.len().to_string());
        client.send(&Method::Post, url.path_and_query(), &headers).map_err(with_causes)?;
        client.write(&body).map_err(with_causes)?;
        let (response, mut text) = client.final_response(&Method::Post).map_err(with_causes)?;
        match response.status {
            200..300 => Ok(()),
            // Samples that a receiver refuses, as too old or out of order, are not sent again.
            400 => {
                let text = client.read_all(&mut text, 4_096).unwrap_or_default();
                tracing::warn!(why = %String::from_utf8_lossy(&text).trim(), "the receiver of remote-write refuses some samples");
                Ok(())
            }
            status => Err(format!("{} answers {status}", url.authority())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::columns::LATENCY;

    #[test]
    fn a_time_series_is_encoded_as_the_protocol_says() {
        let series = time_series(&[("a", "b")], 1.5, 300);
        let label = [0x0a, 1, b'a', 0x12, 1, b'b'];
        let sample = [0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 0xac, 0x02];
        let expected = [&[0x0a, 6][..], &label, &[0x12, 12], &sample].concat();
        assert_eq!(series, expected);
    }

    #[test]
    fn unknown_numbers_are_not_sent() {
        let mut values = vec![None; LATENCY.len()];
        values[1] = Some(600);
        let key = SeriesKey { from: "a".into(), to: "b".into(), test: "latency".into() };
        let text = String::from_utf8_lossy(&write_request([(key, Row { at: 1, values })].iter())).into_owned();
        assert!(text.contains("longhaul_watch_sent") && !text.contains("longhaul_watch_lost_forward"), "{text}");
    }
}
