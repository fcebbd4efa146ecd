//! Rounds that the queue of a hub moves.

use model::id::Uuid;
use model::v1::Stage;
use model::v1::hub::{FileOrder, JobChange, JobOptions, JobOrder};

use super::Runner;
use super::prepare::{class_files, source_directory};
use super::round::{RoundDriver, RoundEnd, RoundSample};
use crate::file::ExerciseFlow;

/// The activity of exercises at a hub: operators give it its share.
const ACTIVITY: &str = "exercise";

/// Moves the files of a flow as one job for each round.
struct HubDriver {
    hub: hubapi::Api,
    order: JobOrder,
    id: Uuid,
}

/// What moves a flow by the hub's queue.
///
/// # Errors
/// There is no hub, or a site is not connected.
pub(super) fn driver(runner: &Runner<'_>, number: usize, flow: &ExerciseFlow) -> Result<Box<dyn RoundDriver>, String> {
    let Some(hub) = runner.inputs.hub.clone() else {
        return Err("flows by the hub need a hub; say which with --hub or LONGHAUL_HUB".to_owned());
    };
    let place = |site: &str| -> Result<String, String> {
        let peer = &runner.sites.get(site).ok_or_else(|| format!("{site} is not connected"))?.peer;
        Ok(format!("lh://{peer}{}", runner.leases.place(site)))
    };
    let (source, target) = (place(&flow.from)?, place(&flow.to)?);
    let directory = source_directory(&flow.class);
    let exercise = runner.inputs.exercise;
    let files = class_files(&flow.class, exercise.scale, exercise.seed).into_iter().map(|file| FileOrder {
        sources: vec![format!("{source}/{directory}/{}", file.path)],
        target: format!("{target}/flow-{number}/{}", file.path),
        bytes: Some(file.bytes),
        ..FileOrder::default()
    });
    let order = JobOrder {
        id: None,
        files: files.collect(),
        community: None,
        activity: Some(ACTIVITY.to_owned()),
        priority: None,
        deadline: None,
        limit_bit_s: None,
        options: JobOptions { overwrite: true, scitag: exercise.scitag, ..JobOptions::default() },
        notify: None,
        metadata: std::collections::BTreeMap::new(),
    };
    Ok(Box::new(HubDriver { hub, order, id: Uuid::nil() }))
}

impl RoundDriver for HubDriver {
    fn begin(&mut self) -> Result<(), String> {
        self.id = Uuid::now_v7();
        self.order.id = Some(self.id);
        self.hub.submit(&self.order).map(drop).map_err(|error| error.to_string())
    }

    /// A job counts the bytes of files that are done.
    fn sample(&mut self) -> Result<Option<RoundSample>, String> {
        let id = self.id.to_string();
        let job = self.hub.job(&id).map_err(|error| error.to_string())?;
        let waiting_for = if job.running == 0 && job.queued > 0 {
            let why = self.hub.why(&id, 1).unwrap_or_default();
            why.first().map_or_else(|| "its turn in the queue".to_owned(), |why| why.constraint.text.clone())
        } else {
            String::new()
        };
        let end = job.state.is_last().then(|| RoundEnd {
            state: job.state.word().to_owned(),
            failed: job.failed,
            verdict: job
                .limited_by
                .as_ref()
                .map_or_else(String::new, |limit| format!("{}: {}", limit.part, limit.evidence)),
            error: (job.state == Stage::Failed)
                .then(|| format!("job {id} failed; longhaul queue show {id} names its files")),
            ..RoundEnd::default()
        });
        if end.is_some() {
            self.id = Uuid::nil();
        }
        Ok(Some(RoundSample { bytes: job.done_bytes, files: job.done, waiting_for, end }))
    }

    fn limit(&mut self, limit_bit_s: u64) -> Result<(), String> {
        self.order.limit_bit_s = Some(limit_bit_s);
        if self.id.is_nil() {
            return Ok(());
        }
        let change = JobChange { limit_bit_s: Some(limit_bit_s), ..JobChange::default() };
        self.hub.change(&self.id.to_string(), &change).map(drop).map_err(|error| error.to_string())
    }

    fn cancel(&mut self) {
        if self.id.is_nil() {
            return;
        }
        if let Err(error) = self.hub.cancel(&self.id.to_string()) {
            tracing::warn!(%error, job = %self.id, "a job cannot be cancelled; cancel it with longhaul queue cancel");
        }
    }
}
