//! `longhaul data get`: copies files from the nearest endpoints that have them, and verifies them by the catalogue's checksums.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use hubapi::Api;
use model::Exit;
use model::fault::Fault;
use model::v1::hub::{DataAccess, FileReplicas, StorageUse};

use super::each_file;
use super::source::{FileListLine, copy, distance};
use crate::args::DataGet;
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// The most endpoints that a file is read from at once.
const SOURCES_MAX: usize = 4;

/// Endpoints with their distances, the nearest first.
struct Endpoints(Vec<(Duration, StorageUse)>);

/// Runs the command.
pub(super) fn run(get: &DataGet, api: &Api, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let mut endpoints = Endpoints(Vec::new());
    for storage in api.storage(None).map_err(failure)?.storage {
        endpoints.0.push((distance(&storage.url, settings), storage));
    }
    endpoints.0.sort_by_key(|(distance, _)| *distance);
    // Files with the same endpoints and the same paths there are copied together.
    let mut groups: BTreeMap<Vec<String>, FetchGroup> = BTreeMap::new();
    let mut unavailable = Vec::new();
    let mut files = Vec::new();
    each_file(api, &get.name, |file| {
        files.push(file);
        Ok(())
    })?;
    let target_paths = target_paths(&get.name, &files)?;
    for (file, to) in files.into_iter().zip(target_paths) {
        match endpoints.sources(&file) {
            Some((roots, from)) => {
                let checksum = file.adler32.map(|value| format!("adler32:{value}"));
                let checksum = checksum.or_else(|| file.md5.map(|value| format!("md5:{value}")));
                let group = groups.entry(roots).or_default();
                group.bytes += file.bytes;
                group.lines.push(FileListLine { from, to, checksum });
            }
            None => unavailable.push(file.name),
        }
    }
    if let Some(first) = unavailable.first() {
        let reason = format!(
            "{} files of {} have no replica that can be read, {first} among them; see longhaul data where {} --files",
            unavailable.len(),
            get.name,
            get.name
        );
        return Err(Failure { exit: Fault::Missing.into(), fault: Fault::Missing, message: reason });
    }
    if groups.is_empty() {
        return Err(Failure::usage(format!("{} has no files", get.name)));
    }
    let target = get.target.display().to_string();
    let target = target.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(&target);
    let mut exit = Exit::Done;
    for (roots, group) in groups {
        let (source, mirrors) = roots.split_first().ok_or_else(|| Failure::local("a copy has no source"))?;
        let copy_exit = copy(source, target, mirrors, &group.lines, settings, printer)?;
        match copy_exit {
            Exit::Done => report_access(&get.name, &endpoints, source, &group, api),
            _ => exit = copy_exit,
        }
    }
    Ok(exit)
}

/// Files that are fetched from the same endpoints.
#[derive(Default)]
struct FetchGroup {
    lines: Vec<FileListLine>,
    bytes: u64,
}

/// Reports the access to the catalogue, which keeps recently used files longest. The command succeeds even if the report fails.
fn report_access(name: &str, endpoints: &Endpoints, source: &str, group: &FetchGroup, api: &Api) {
    let is_source = |(_, storage): &&(Duration, StorageUse)| format!("{}/", storage.url) == source;
    let Some((_, storage)) = endpoints.0.iter().find(is_source) else { return };
    let files = group.lines.len() as u64;
    let access = DataAccess { endpoint: storage.endpoint.clone(), files, bytes: group.bytes };
    if let Err(error) = api.note_access(name, &access) {
        Printer::note(&format!("the access could not be reported to the catalogue: {error}"));
    }
}

impl Endpoints {
    /// The storage directories of the endpoints that have a file at the same path, the nearest first, and that path.
    fn sources(&self, file: &FileReplicas) -> Option<(Vec<String>, String)> {
        let mut roots = Vec::new();
        let mut path: Option<String> = None;
        for (distance, storage) in &self.0 {
            let there =
                file.replicas.iter().find(|copy| copy.endpoint == storage.endpoint && copy.state == "available");
            let Some(below) =
                there.and_then(|copy| copy.url.strip_prefix(&format!("{}/", storage.url)).map(percent_decoded))
            else {
                continue;
            };
            let is_reached = *distance < Duration::MAX;
            match &path {
                None => path = Some(below),
                Some(first) if *first == below && is_reached && roots.len() < SOURCES_MAX => {}
                Some(_) => continue,
            }
            roots.push(format!("{}/", storage.url));
        }
        path.map(|path| (roots, path))
    }
}

/// A path of a URL without percent-encoding.
fn percent_decoded(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// The target paths of a dataset's files, in order. Where two files would have the same path, a file whose name is not below that of
/// the dataset gets a path below its scope.
fn target_paths(dataset: &str, files: &[FileReplicas]) -> Result<Vec<String>, Failure> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for file in files {
        *counts.entry(target_path(dataset, &file.name)).or_default() += 1;
    }
    let place = |file: &FileReplicas| {
        let short = target_path(dataset, &file.name);
        let is_unique = counts.get(&short).is_none_or(|count| *count == 1);
        let is_below = file.name.strip_prefix(dataset).is_some_and(|rest| rest.starts_with('/'));
        if is_unique || is_below { short } else { file.name.replacen(':', "/", 1) }
    };
    let target_paths: Vec<String> = files.iter().map(place).collect();
    let mut taken: HashMap<&str, &str> = HashMap::new();
    for (file, to) in files.iter().zip(&target_paths) {
        if let Some(other) = taken.insert(to, &file.name) {
            let reason = format!("{other} and {} would both go to {to}: get the files one by one", file.name);
            return Err(Failure::usage(reason));
        }
    }
    Ok(target_paths)
}

/// The target path of a dataset's file: its name without that of the dataset, or its whole name.
fn target_path(dataset: &str, file: &str) -> String {
    let name = file.split_once(':').map_or(file, |(_, name)| name);
    let rest = file.strip_prefix(dataset).and_then(|rest| rest.strip_prefix('/'));
    match rest {
        Some(rest) => rest.to_owned(),
        None if file == dataset => name.rsplit('/').next().unwrap_or(name).to_owned(),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_below_their_dataset() {
        assert_eq!(target_path("s:run/7", "s:run/7/a/b"), "a/b");
        assert_eq!(target_path("s:run/7", "s:other/f"), "other/f");
        assert_eq!(target_path("s:run/7/f", "s:run/7/f"), "f");
        assert_eq!(target_path("s:run", "s:running/f"), "running/f");
    }

    #[test]
    fn files_of_two_scopes_do_not_go_to_one_path() {
        let file = |name: &str| FileReplicas { name: name.into(), ..FileReplicas::default() };
        let files = ["s:run/7/cal.fits", "t:cal.fits", "u:cal.fits", "t:other"].map(file);
        assert_eq!(target_paths("s:run/7", &files).unwrap(), ["cal.fits", "t/cal.fits", "u/cal.fits", "other"]);
        let files = ["s:run/7/t/cal.fits", "t:cal.fits", "s:run/7/cal.fits"].map(file);
        let refused = target_paths("s:run/7", &files).unwrap_err();
        assert!(refused.message.contains("would both go to t/cal.fits"), "{}", refused.message);
    }
}
