//! `GET /metrics`: numbers for monitoring, for operators. docs/metrics.md has every name.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};
use web::Refused;
use web::openmetrics::{Labels, MEDIA_TYPE, MetricsSnapshot, label, with_label};

use super::{ApiRequest, ApiResult};
use crate::database::queues::Queue;
use crate::meters::Meters;
use crate::snapshot::Snapshot;
use crate::state::unavailable;
use crate::time;

/// GET /metrics.
pub(super) async fn metrics(request: ApiRequest) -> ApiResult {
    let hub = &request.hub;
    let queues = hub.database.queues().await.map_err(unavailable)?;
    let unended = hub.database.unended_transfers().await.map_err(unavailable)?;
    let mut all = MetricsSnapshot::default();
    let build = vec![(label("version", env!("CARGO_PKG_VERSION")), 1)];
    all.gauges("longhaul_hub_build_info", "Version of the program, as a label; the value is 1.", build);
    read_queues(&queues, &mut all);
    let mut transfers: BTreeMap<String, u64> = BTreeMap::new();
    unended.iter().for_each(|transfer| *transfers.entry(transfer.hub.clone()).or_default() += 1);
    let transfers = transfers.into_iter().map(|(hub, count)| (label("hub", hub), count)).collect();
    all.gauges("longhaul_hub_transfers_running", "Running transfers, by the hub that ordered them.", transfers);
    read_resources(&hub.snapshot.load(), &mut all);
    read_counts(&hub.meters, &mut all);
    let unwritable = |error: std::fmt::Error| Refused::new(500, format!("the numbers cannot be written: {error}"));
    let mut response = Response::new(Body::from(all.text().map_err(unwritable)?));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    Ok(response)
}

fn read_queues(queues: &[Queue], all: &mut MetricsSnapshot) {
    let mut sums: BTreeMap<&str, [i64; 4]> = BTreeMap::new();
    for queue in queues {
        let sum = sums.entry(&queue.key.community).or_default();
        let more = [queue.queued, queue.running, queue.queued_bytes, queue.running_bytes];
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    let rows = |at: usize| -> Vec<(Labels, u64)> {
        let row = |(community, sum): (&&str, &[i64; 4])| {
            let by = |state, value: i64| {
                (with_label(label("community", (*community).to_owned()), "state", state), value.max(0) as u64)
            };
            [by("queued", sum[at]), by("running", sum[at + 1])]
        };
        sums.iter().flat_map(row).collect()
    };
    all.gauges("longhaul_hub_files", "Files that have not ended, by community and state.", rows(0));
    all.gauges(
        "longhaul_hub_file_bytes",
        "Bytes of files that have not ended; files of unknown size count 0.",
        rows(2),
    );
    let late = |queue: &&Queue| queue.key.deadline > 0 && queue.key.deadline < time::now();
    let late = queues.iter().filter(late).map(|queue| queue.queued + queue.running).sum::<i64>();
    all.gauge("longhaul_hub_late_files", "Files whose deadline has passed.", late.max(0) as u64);
}

fn read_resources(snapshot: &Snapshot, all: &mut MetricsSnapshot) {
    let rates = snapshot.resources.iter().flat_map(|resource| {
        let rate = |what, rate| (with_label(label("resource", resource.name.clone()), "rate", what), rate);
        [
            rate("usable", resource.usable_bit_s),
            rate("allocated", resource.allocated_bit_s),
            rate("used", resource.used_bit_s),
        ]
    });
    all.gauges(
        "longhaul_hub_resource_bit_s",
        "Usable, allocated and used rate of links, endpoints and communities, bit/s.",
        rates.collect(),
    );
    let at = snapshot.at as f64 / 1000.0;
    all.real_gauge(
        "longhaul_hub_last_look_time_seconds",
        "Time of the scheduler's last round, seconds since 1970.",
        at,
    );
}

fn read_counts(meters: &Meters, all: &mut MetricsSnapshot) {
    let jobs = vec![
        (label("outcome", "accepted"), meters.submitted_jobs.get()),
        (label("outcome", "refused"), meters.refused_jobs.get()),
    ];
    all.counters("longhaul_hub_submissions", "Submitted jobs, by outcome.", jobs);
    let files = vec![
        (label("outcome", "done"), meters.done_files.get()),
        (label("outcome", "failed"), meters.failed_files.get()),
        (label("outcome", "again"), meters.failed_attempts.get()),
    ];
    all.counters("longhaul_hub_attempts", "Ended attempts of files, by outcome.", files);
    all.counter("longhaul_hub_done_bytes", "Bytes of files that arrived.", meters.done_bytes.get());
    all.counter("longhaul_hub_failed_looks", "Rounds of the scheduler that failed.", meters.failed_rounds.get());
    all.real_gauge(
        "longhaul_hub_look_seconds",
        "Duration of the scheduler's last round, seconds.",
        meters.last_round().as_secs_f64(),
    );
}
