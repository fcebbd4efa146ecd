//! What the numbers are called, and how they are written: OpenMetrics text, as Prometheus reads it. docs/metrics.md has every
//! name; a test holds both against each other.

use std::borrow::Cow;
use std::fmt;
use std::time::UNIX_EPOCH;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::process::Process;
use super::{By, Count, Ended, Meters, STATUSES, Sums, Why};

/// What the text is, by RFC 9110's field.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, Cow<'static, str>)>;

#[derive(Clone, Copy, Debug)]
enum Value {
    Whole(u64),
    Real(f64),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Only grows: its name ends in `_total`.
    Counter,
    Gauge,
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    unit: Option<Unit>,
    kind: Kind,
    help: &'static str,
    rows: Vec<(Labels, Value)>,
}

/// All numbers at one moment.
#[derive(Debug, Default)]
pub(crate) struct Reading(Vec<Family>);

impl Reading {
    fn add(&mut self, kind: Kind, name: &'static str, help: &'static str, rows: Vec<(Labels, Value)>) {
        // The unit is the end of the name, and written by the library.
        let (name, unit) = match (name.strip_suffix("_bytes"), name.strip_suffix("_seconds")) {
            (Some(name), _) => (name, Some(Unit::Bytes)),
            (_, Some(name)) => (name, Some(Unit::Seconds)),
            _ => (name, None),
        };
        self.0.push(Family { name, unit, kind, help, rows });
    }

    /// A number that only grows.
    pub fn counter(&mut self, name: &'static str, help: &'static str, count: u64) {
        self.counters(name, help, vec![(Labels::new(), count)]);
    }

    /// The same by labels.
    pub fn counters(&mut self, name: &'static str, help: &'static str, rows: Vec<(Labels, u64)>) {
        let rows = rows.into_iter().map(|(labels, count)| (labels, Value::Whole(count))).collect();
        self.add(Kind::Counter, name, help, rows);
    }

    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, now: u64) {
        self.gauges(name, help, vec![(Labels::new(), now)]);
    }

    /// The same by labels.
    pub fn gauges(&mut self, name: &'static str, help: &'static str, rows: Vec<(Labels, u64)>) {
        let rows = rows.into_iter().map(|(labels, now)| (labels, Value::Whole(now))).collect();
        self.add(Kind::Gauge, name, help, rows);
    }

    /// As text.
    pub fn text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(out)
    }
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, family.unit.as_ref(), kind)?;
            for (labels, value) in &family.rows {
                let labels: Vec<(&str, Cow<'_, str>)> =
                    labels.iter().map(|(name, value)| (*name, escaped(value))).collect();
                if labels.is_empty() {
                    write(&mut metric, family.kind, *value)?;
                } else {
                    write(&mut metric.encode_family(&labels)?, family.kind, *value)?;
                }
            }
        }
        Ok(())
    }
}

/// A label's value within its quotes: the library writes it as it is.
fn escaped(value: &str) -> Cow<'_, str> {
    match value.contains(['\\', '"', '\n']) {
        true => value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").into(),
        false => value.into(),
    }
}

fn write(metric: &mut MetricEncoder<'_>, kind: Kind, value: Value) -> Result<(), fmt::Error> {
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => metric.encode_counter::<NoLabelSet, u64, f64>(&value, None),
        (Kind::Counter, Value::Real(value)) => metric.encode_counter::<NoLabelSet, f64, f64>(&value, None),
        (Kind::Gauge, Value::Whole(value)) => metric.encode_gauge(&value),
        (Kind::Gauge, Value::Real(value)) => metric.encode_gauge(&value),
    }
}

/// A label with its value.
pub(crate) fn label(name: &'static str, value: impl Into<Cow<'static, str>>) -> Labels {
    vec![(name, value.into())]
}

fn and(mut labels: Labels, name: &'static str, value: &'static str) -> Labels {
    labels.push((name, value.into()));
    labels
}

impl Meters {
    /// All numbers that are known here, taken in to the last block.
    pub fn read(&self) -> Reading {
        self.settle();
        let mut all = Reading::default();
        let build = vec![(label("version", env!("CARGO_PKG_VERSION")), 1)];
        all.gauges("longhaul_build_info", "The program's version, as a label of a constant 1.", build);
        self.read_moved(&mut all);
        self.read_jobs(&mut all);
        self.read_guests(&mut all);
        all.counters(
            "longhaul_reloads",
            "Times that new settings were asked for.",
            ["done", "refused"].iter().zip(&self.reloads).map(|(how, n)| (label("outcome", *how), n.get())).collect(),
        );
        self.read_process(&mut all);
        all
    }

    fn by(&self, of: &[By], count: fn(&Sums) -> &Count) -> Vec<(Labels, u64)> {
        of.iter().map(|by| (label("protocol", by.word()), count(&self.by[*by as usize]).get())).collect()
    }

    fn both_ways(&self, came: fn(&Sums) -> &Count, went: fn(&Sums) -> &Count) -> Vec<(Labels, u64)> {
        let way = |rows: Vec<(Labels, u64)>, way| {
            rows.into_iter().map(move |(labels, count)| (and(labels, "direction", way), count))
        };
        way(self.by(&By::ALL, came), "in").chain(way(self.by(&By::ALL, went), "out")).collect()
    }

    fn read_moved(&self, all: &mut Reading) {
        let bytes = self.both_ways(|sums| &sums.bytes_in, |sums| &sums.bytes_out);
        all.counters("longhaul_moved_bytes", "Bytes of files that moved over the network.", bytes);
        let files = self.both_ways(|sums| &sums.files_in, |sums| &sums.files_out);
        all.counters("longhaul_moved_files", "Files that moved over the network, whole.", files);
        let (running, streams) = self.live.count();
        let running = By::ALL.iter().map(|by| (label("protocol", by.word()), running[*by as usize])).collect();
        all.gauges("longhaul_transfers_running", "Jobs and requests under way.", running);
        all.gauge("longhaul_streams", "Data streams of jobs and errands that are open.", streams);
        let segments = self.resent_segments.get();
        all.counter("longhaul_tcp_retransmitted_segments", "Segments that TCP sent again, of ended streams.", segments);
        let bytes = self.resent_segment_bytes.get();
        all.counter("longhaul_tcp_retransmitted_bytes", "Bytes that TCP sent again, of ended streams.", bytes);
        let bytes = self.resent_bytes.get();
        all.counter("longhaul_resent_bytes", "Bytes that native jobs had to move more than once.", bytes);
        let failures = self.integrity.get();
        all.counter("longhaul_integrity_failures", "Times that bytes were not what they should be.", failures);
    }

    fn read_jobs(&self, all: &mut Reading) {
        let begun = self.by(&By::JOBS, |sums| &sums.begun);
        all.counters("longhaul_jobs_begun", "Jobs that began.", begun);
        let mut ended = Vec::new();
        for by in By::JOBS {
            let of = &self.by[by as usize].ended;
            let row = |how: &Ended| (and(label("protocol", by.word()), "outcome", how.word()), of[*how as usize].get());
            ended.extend(Ended::ALL.iter().map(row));
        }
        all.counters("longhaul_jobs_ended", "Jobs that ended, or were refused before they began.", ended);
        let mut answered = Vec::new();
        for by in By::REQUESTS {
            let of = &self.by[by as usize].statuses;
            let row = |(class, count): (&&'static str, &Count)| {
                (and(label("protocol", by.word()), "status", class), count.get())
            };
            answered.extend(STATUSES.iter().zip(of).map(row));
        }
        all.counters("longhaul_http_requests", "Requests of HTTP that were answered.", answered);
    }

    fn read_guests(&self, all: &mut Reading) {
        let refusals = Why::ALL.iter().map(|why| (label("reason", why.word()), self.refusals[*why as usize].get()));
        all.counters("longhaul_refusals", "Times that somebody was refused.", refusals.collect());
        all.counter("longhaul_logins", "Logins of the native protocol.", self.logins.get());
        let rooms = self.rooms.get().map(|look| look()).unwrap_or_default();
        all.gauge("longhaul_sessions", "Sessions of the native protocol that are open.", rooms.sessions as u64);
        let states = [("idle", rooms.idle), ("attended", rooms.attended), ("waiting", rooms.waiting)];
        let states = states.into_iter().map(|(state, count)| (label("state", state), count as u64)).collect();
        all.gauges("longhaul_connections", "Connections before login, and of HTTP/1.1 and HTTP/2.", states);
    }

    fn read_process(&self, all: &mut Reading) {
        let process = Process::now();
        let began = self.began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let real = |value| vec![(Labels::new(), Value::Real(value))];
        all.add(Kind::Gauge, "process_start_time_seconds", "When the node started, since 1970.", real(began));
        let cpu = real(process.cpu_seconds);
        all.add(Kind::Counter, "process_cpu_seconds", "Time of the processors, in user and kernel mode.", cpu);
        all.gauge("process_resident_memory_bytes", "Memory that is in RAM.", process.resident_bytes);
        all.gauge("process_open_fds", "Descriptors that are open.", process.descriptors);
        all.gauge("process_max_fds", "Descriptors that may be open.", process.descriptors_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_is_there_from_the_beginning() {
        let text = Meters::default().read().text().unwrap();
        for line in [
            "# TYPE longhaul_moved_bytes counter",
            "# UNIT longhaul_moved_bytes bytes",
            "longhaul_moved_bytes_total{protocol=\"native\",direction=\"in\"} 0",
            "longhaul_jobs_ended_total{protocol=\"errand\",outcome=\"refused\"} 0",
            "longhaul_http_requests_total{protocol=\"h2\",status=\"5xx\"} 0",
            "longhaul_refusals_total{reason=\"busy\"} 0",
            "longhaul_streams 0",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn what_an_operator_names_stays_within_its_quotes() {
        let mut all = Reading::default();
        all.gauges("x", "X.", vec![(label("export", "a\"b\\c\nd".to_owned()), 1)]);
        let text = all.text().unwrap();
        assert!(text.contains(r#"x{export="a\"b\\c\nd"} 1"#), "{text}");
    }
}
