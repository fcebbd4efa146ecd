//! The files of an exercise: made by the nodes at the sources before the first phase.

use std::time::Duration;

use model::v1::node::{ScratchFile, ScratchFiles};

use super::native::NativeRound;
use super::{RunError, Runner};
use crate::data_set::{DataFile, equal_files};
use crate::file::{ClassFiles, ExerciseFlow, FlowClass};

/// Files of one request: the body of a request is bounded.
const FILES_PER_REQUEST: usize = 5_000;
/// How often a node is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Has the nodes make the files of all classes that are sent from disk, all at the same time.
///
/// # Errors
/// A node cannot, or the run is stopped.
pub(super) fn make_files(runner: &Runner<'_>) -> Result<(), RunError> {
    let exercise = runner.inputs.exercise;
    let flows = exercise.flows().map(|(_, flow)| (flow.from.as_str(), flow.class.clone()));
    let searched = exercise
        .search
        .iter()
        .flat_map(|search| search.file_classes().into_iter().map(|class| (search.flow.from.as_str(), class)));
    let mut wanted: Vec<(&str, FlowClass)> = Vec::new();
    for (from, class) in flows.chain(searched) {
        let is_known = wanted.iter().any(|(site, known)| *site == from && known.name == class.name);
        if class.medium.reads() && !is_known && runner.sites.contains_key(from) {
            wanted.push((from, class));
        }
    }
    for (site, class) in &wanted {
        order_files(runner, site, class)?;
    }
    for (at, (site, _)) in wanted.iter().enumerate() {
        if !wanted[..at].iter().any(|(known, _)| known == site) {
            wait_for_files(runner, site)?;
        }
    }
    Ok(())
}

fn order_files(runner: &Runner<'_>, site: &str, class: &FlowClass) -> Result<(), RunError> {
    let failed = |why: String| RunError::Files { site: site.to_owned(), why };
    let seed = runner.inputs.exercise.seed;
    let directory = source_directory(class);
    let named = |file: DataFile| ScratchFile { path: format!("{directory}/{}", file.path), bytes: file.bytes };
    let files: Vec<ScratchFile> =
        class_files(class, runner.inputs.exercise.scale, seed).into_iter().map(named).collect();
    for part in files.chunks(FILES_PER_REQUEST) {
        runner.leases.make_files(site, ScratchFiles { seed, files: part.to_vec() }).map_err(failed)?;
    }
    Ok(())
}

fn wait_for_files(runner: &Runner<'_>, site: &str) -> Result<(), RunError> {
    let failed = |why: String| RunError::Files { site: site.to_owned(), why };
    let (api, id) = place_of(runner, site)?;
    loop {
        let place = api.scratch(id).map_err(|error| failed(error.to_string()))?;
        if let Some(error) = place.error {
            return Err(failed(error));
        }
        if place.files_made >= place.files_ordered {
            return Ok(());
        }
        runner.observe(&format!("{site} has made {} of {} files", place.files_made, place.files_ordered), Vec::new());
        runner.pause(LOOK_EVERY);
        if runner.is_stopped() {
            return Err(RunError::Stopped);
        }
    }
}

fn place_of<'a>(runner: &'a Runner<'_>, site: &str) -> Result<(&'a nodeapi::Api, model::id::Uuid), RunError> {
    let found = runner.leases.api(site).zip(runner.leases.id(site));
    found.ok_or_else(|| RunError::Files { site: site.to_owned(), why: "it has no scratch place".into() })
}

/// The directory of a class in the scratch place of a source.
pub(super) fn source_directory(class: &FlowClass) -> String {
    format!("source/{}", class.name)
}

/// The files of a class.
pub(super) fn class_files(class: &FlowClass, scale: f64, seed: u64) -> Vec<DataFile> {
    match &class.files {
        ClassFiles::Equal { count, bytes } => equal_files(*count, *bytes, scale).collect(),
        ClassFiles::Set(set) => set.files(scale).collect(),
        ClassFiles::Mix { count, mix } => mix.files(*count, scale, seed).collect(),
    }
}

/// What a round of a flow moves by the protocol of the nodes.
pub(super) fn native_round(runner: &Runner<'_>, number: usize, flow: &ExerciseFlow) -> NativeRound {
    let peer = runner.sites.get(flow.to.as_str()).map_or("", |site| &site.peer);
    let (_, bytes) = flow.class.volume(runner.inputs.exercise.scale);
    let medium = flow.class.medium;
    let source = if medium.reads() {
        format!("{}/{}", runner.leases.place(&flow.from), source_directory(&flow.class))
    } else {
        format!("/zero:{bytes}")
    };
    let target = match (medium.writes(), medium.reads()) {
        (false, _) => format!("lh://{peer}/null:"),
        (true, true) => format!("lh://{peer}{}/flow-{number}/", runner.leases.place(&flow.to)),
        (true, false) => format!("lh://{peer}{}/flow-{number}.dat", runner.leases.place(&flow.to)),
    };
    let scitag = runner.inputs.exercise.scitag;
    NativeRound { source, target, streams: flow.class.streams, is_tree: medium.reads(), scitag }
}
