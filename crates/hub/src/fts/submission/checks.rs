//! Checks the files of a submission by FTS's rules.

use model::Refusal;

use super::params::{Params, metadata};
use super::{FtsFile, refuse};
use crate::fts::forms::storage;

/// The most bytes of a file's metadata.
const FILE_METADATA_MAX: usize = 4096;
/// The most bytes of the metadata of staging, and of archiving.
const TAPE_METADATA_MAX: usize = 1024;
/// FTS's strategies for the choice among several sources. The hub accepts all of them; only `orderly` changes its own choice.
const STRATEGIES: [&str; 10] = [
    "auto",
    "orderly",
    "queue",
    "success",
    "throughput",
    "file-throughput",
    "pending-data",
    "waiting-time",
    "waiting-time-with-error",
    "duration",
];

/// Checks the files of a submission.
pub(super) fn files(files: &[FtsFile], params: &Params<'_>) -> Result<(), Refusal> {
    for (at, file) in files.iter().enumerate() {
        check_file(file).map_err(|why| refuse(format!("file {at}: {why}")))?;
    }
    if params.is_set("reuse") {
        check_reuse(files, params)?;
    }
    Ok(())
}

fn check_file(file: &FtsFile) -> Result<(), String> {
    if file.sources.is_empty() || file.destinations.is_empty() {
        return Err("it needs sources and destinations".to_owned());
    }
    if let Some(strategy) = file.selection_strategy.as_deref().filter(|it| !STRATEGIES.contains(it)) {
        return Err(format!("selection_strategy {strategy:?} is none of {}", STRATEGIES.join(", ")));
    }
    if let Some(tag) = file.scitag.filter(|tag| !(65..=65_535).contains(tag)) {
        return Err(format!("scitag {tag} is not in 65 to 65535"));
    }
    if file.filesize.is_some_and(|bytes| !(0.0..=i64::MAX as f64).contains(&bytes)) {
        return Err("filesize is a number of bytes".to_owned());
    }
    for (name, value, most) in [
        ("metadata", &file.metadata, FILE_METADATA_MAX),
        ("staging_metadata", &file.staging_metadata, TAPE_METADATA_MAX),
        ("archive_metadata", &file.archive_metadata, TAPE_METADATA_MAX),
    ] {
        metadata(name, value, most)?;
    }
    check_tokens(file)
}

/// Checks that a submission has tokens for all storages of a file, or for none.
fn check_tokens(file: &FtsFile) -> Result<(), String> {
    let count = |tokens: &Option<Vec<String>>| tokens.as_ref().map_or(0, Vec::len);
    let (sources, targets) = (count(&file.source_tokens), count(&file.destination_tokens));
    if (sources, targets) != (0, 0) && (sources, targets) != (file.sources.len(), file.destinations.len()) {
        return Err(format!(
            "source_tokens and destination_tokens have one token for each source and destination, or none: {sources} and {targets} came for {} and {}",
            file.sources.len(),
            file.destinations.len()
        ));
    }
    // A token goes into a header field: other characters would let a client write further fields.
    let all = [&file.source_tokens, &file.destination_tokens].into_iter().flatten().flatten();
    if all.into_iter().any(|token| token.len() > 16_384 || !token.bytes().all(|byte| (0x21..0x7f).contains(&byte))) {
        Err("a token is a word of at most 16384 letters, digits and signs".to_owned())
    } else {
        Ok(())
    }
}

/// Checks that all files have the same source and target storage: session reuse requires it.
fn check_reuse(files: &[FtsFile], params: &Params<'_>) -> Result<(), Refusal> {
    if params.is_set("multihop") || files.iter().any(|file| file.sources.len() > 1) {
        return Err(refuse("reuse does not go together with multihop or several sources"));
    }
    let ends = |file: &FtsFile| -> Vec<String> {
        let mut ends: Vec<String> = file.destinations.iter().map(|url| storage(url)).collect();
        ends.dedup();
        ends.extend(file.sources.first().map(|url| storage(url)));
        ends
    };
    let first = files.first().map(&ends);
    if files.iter().any(|file| ends(file).len() > 2 || Some(ends(file)) != first) {
        return Err(refuse("reuse is for files of one source storage and one destination storage"));
    }
    Ok(())
}
