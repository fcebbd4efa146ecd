//! The names of the metrics. docs/metrics.md lists every name; a test compares the two.

use std::time::UNIX_EPOCH;

use web::openmetrics::{Labels, MetricsSnapshot, label, with_label};

use super::process::Process;
use super::{Counter, JobOutcome, Meters, Protocol, ProtocolTotals, RefusalReason, STATUSES};

impl Meters {
    /// All metrics, up to the last block that has moved.
    pub fn snapshot(&self) -> MetricsSnapshot {
        self.update_totals();
        let mut all = MetricsSnapshot::default();
        let build = vec![(label("version", env!("CARGO_PKG_VERSION")), 1)];
        all.gauges("longhaul_build_info", "Version of the program, as a label; the value is 1.", build);
        self.read_moved(&mut all);
        self.read_jobs(&mut all);
        self.read_clients(&mut all);
        all.counters(
            "longhaul_reloads",
            "Requests to load new settings, by outcome.",
            ["done", "refused"].iter().zip(&self.reloads).map(|(how, n)| (label("outcome", *how), n.get())).collect(),
        );
        self.read_process(&mut all);
        all
    }

    fn rows(&self, protocols: &[Protocol], count: fn(&ProtocolTotals) -> &Counter) -> Vec<(Labels, u64)> {
        protocols.iter().map(|by| (label("protocol", by.word()), count(&self.totals[*by as usize]).get())).collect()
    }

    fn by_direction(
        &self,
        received: fn(&ProtocolTotals) -> &Counter,
        sent: fn(&ProtocolTotals) -> &Counter,
    ) -> Vec<(Labels, u64)> {
        let labelled = |rows: Vec<(Labels, u64)>, direction| {
            rows.into_iter().map(move |(labels, count)| (with_label(labels, "direction", direction), count))
        };
        let received = labelled(self.rows(&Protocol::ALL, received), "in");
        received.chain(labelled(self.rows(&Protocol::ALL, sent), "out")).collect()
    }

    fn read_moved(&self, all: &mut MetricsSnapshot) {
        let bytes = self.by_direction(|sums| &sums.bytes_in, |sums| &sums.bytes_out);
        all.counters("longhaul_moved_bytes", "Bytes of files that moved over the network.", bytes);
        let files = self.by_direction(|sums| &sums.files_in, |sums| &sums.files_out);
        all.counters("longhaul_moved_files", "Whole files that moved over the network.", files);
        let (running, streams) = self.live.count();
        let running = Protocol::ALL.iter().map(|by| (label("protocol", by.word()), running[*by as usize])).collect();
        all.gauges("longhaul_transfers_running", "Running jobs and requests.", running);
        all.gauge("longhaul_streams", "Open data streams of jobs and delegated transfers.", streams);
        let segments = self.resent_segments.get();
        all.counter(
            "longhaul_tcp_retransmitted_segments",
            "Segments that TCP retransmitted, counted when a stream ends.",
            segments,
        );
        let bytes = self.resent_segment_bytes.get();
        all.counter(
            "longhaul_tcp_retransmitted_bytes",
            "Bytes that TCP retransmitted, counted when a stream ends.",
            bytes,
        );
        let bytes = self.resent_bytes.get();
        all.counter("longhaul_resent_bytes", "Bytes that native jobs moved more than once.", bytes);
        let failures = self.integrity.get();
        all.counter("longhaul_integrity_failures", "Failed integrity checks: digests that did not agree.", failures);
    }

    fn read_jobs(&self, all: &mut MetricsSnapshot) {
        let begun = self.rows(&Protocol::JOBS, |sums| &sums.begun);
        all.counters("longhaul_jobs_begun", "Jobs that began.", begun);
        let mut ended = Vec::new();
        for by in Protocol::JOBS {
            let of = &self.totals[by as usize].ended;
            let row = |how: &JobOutcome| {
                (with_label(label("protocol", by.word()), "outcome", how.word()), of[*how as usize].get())
            };
            ended.extend(JobOutcome::ALL.iter().map(row));
        }
        all.counters("longhaul_jobs_ended", "Jobs that ended or were refused before they began, by outcome.", ended);
        let mut answered = Vec::new();
        for by in Protocol::REQUESTS {
            let of = &self.totals[by as usize].statuses;
            let row = |(class, count): (&&'static str, &Counter)| {
                (with_label(label("protocol", by.word()), "status", class), count.get())
            };
            answered.extend(STATUSES.iter().zip(of).map(row));
        }
        all.counters("longhaul_http_requests", "Answered HTTP requests, by status.", answered);
    }

    fn read_clients(&self, all: &mut MetricsSnapshot) {
        let refusals =
            RefusalReason::ALL.iter().map(|why| (label("reason", why.word()), self.refusals[*why as usize].get()));
        all.counters("longhaul_refusals", "Refused logins, requests and connections, by reason.", refusals.collect());
        all.counter("longhaul_logins", "Logins of the native protocol.", self.logins.get());
        let connections = self.connections.get().map(|count| count()).unwrap_or_default();
        all.gauge("longhaul_sessions", "Open sessions of the native protocol.", connections.sessions as u64);
        let states = [("idle", connections.idle), ("attended", connections.served), ("waiting", connections.waiting)];
        let states = states.into_iter().map(|(state, count)| (label("state", state), count as u64)).collect();
        all.gauges("longhaul_connections", "Connections before login and HTTP connections, by state.", states);
    }

    fn read_process(&self, all: &mut MetricsSnapshot) {
        let process = Process::now();
        let began = self.began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        all.real_gauge("process_start_time_seconds", "Start time of the node, seconds since 1970.", began);
        let cpu = process.cpu_seconds;
        all.real_counter("process_cpu_seconds", "Processor time in user and kernel mode, seconds.", cpu);
        all.gauge("process_resident_memory_bytes", "Memory of the process in RAM, bytes.", process.resident_bytes);
        all.gauge("process_open_fds", "Open file descriptors.", process.descriptors);
        all.gauge("process_max_fds", "Limit of open file descriptors.", process.descriptors_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_exists_from_the_start() {
        let text = Meters::default().snapshot().text().unwrap();
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
}
