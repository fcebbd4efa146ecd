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

/// Endpoints by their distance, the nearest first.
struct Endpoints(Vec<(Duration, StorageUse)>);

/// Runs the command.
pub(super) fn run(get: &DataGet, api: &Api, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let mut endpoints = Endpoints(Vec::new());
    for storage in api.storage(None).map_err(failure)?.storage {
        endpoints.0.push((distance(&storage.url, settings), storage));
    }
    endpoints.0.sort_by_key(|(distance, _)| *distance);
    // Files with the same endpoints and the same paths there are copied together.
    let mut copies: BTreeMap<Vec<String>, FetchGroup> = BTreeMap::new();
    let mut nowhere = Vec::new();
    let mut files = Vec::new();
    each_file(api, &get.name, |file| {
        files.push(file);
        Ok(())
    })?;
    let places = places(&get.name, &files)?;
    for (file, to) in files.into_iter().zip(places) {
        match endpoints.sources(&file) {
            Some((roots, from)) => {
                let checksum = file.adler32.map(|value| format!("adler32:{value}"));
                let checksum = checksum.or_else(|| file.md5.map(|value| format!("md5:{value}")));
                let fetched = copies.entry(roots).or_default();
                fetched.bytes += file.bytes;
                fetched.lines.push(FileListLine { from, to, checksum });
            }
            None => nowhere.push(file.name),
        }
    }
    if let Some(first) = nowhere.first() {
        let reason = format!(
            "{} files of {} are nowhere that can be read, {first} among them; longhaul data where {} --files says more",
            nowhere.len(),
            get.name,
            get.name
        );
        return Err(Failure { exit: Fault::Missing.into(), fault: Fault::Missing, message: reason });
    }
    if copies.is_empty() {
        return Err(Failure::usage(format!("{} has no files", get.name)));
    }
    let target = get.target.display().to_string();
    let target = target.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(&target);
    let mut exit = Exit::Done;
    for (roots, fetched) in copies {
        let (source, mirrors) = roots.split_first().ok_or_else(|| Failure::local("a copy has no source"))?;
        let ended = copy(source, target, mirrors, &fetched.lines, settings, printer)?;
        match ended {
            Exit::Done => tell_of(&get.name, &endpoints, source, &fetched, api),
            _ => exit = ended,
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

/// Reports the access to the catalogue, which keeps recently used files longest. A failure to report does not fail the command.
fn tell_of(name: &str, endpoints: &Endpoints, source: &str, fetched: &FetchGroup, api: &Api) {
    let is_it = |(_, storage): &&(Duration, StorageUse)| format!("{}/", storage.url) == source;
    let Some((_, storage)) = endpoints.0.iter().find(is_it) else { return };
    let (files, bytes) = (fetched.lines.len() as u64, fetched.bytes);
    let access = DataAccess { endpoint: storage.endpoint.clone(), files, bytes };
    if let Err(error) = api.note_access(name, &access) {
        Printer::note(&format!("the catalogue could not be told what was fetched: {error}"));
    }
}

impl Endpoints {
    /// The directories of endpoints that have a file under the same path, the nearest first, and that path.
    fn sources(&self, file: &FileReplicas) -> Option<(Vec<String>, String)> {
        let mut roots = Vec::new();
        let mut path: Option<String> = None;
        for (distance, storage) in &self.0 {
            let there =
                file.replicas.iter().find(|copy| copy.endpoint == storage.endpoint && copy.state == "available");
            let Some(below) = there.and_then(|copy| copy.url.strip_prefix(&format!("{}/", storage.url)).map(plain))
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
fn plain(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// The target paths of a dataset's files, in order. Where two files would have one path, those whose names are not below the
/// dataset's go below their scopes.
fn places(dataset: &str, files: &[FileReplicas]) -> Result<Vec<String>, Failure> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for file in files {
        *counts.entry(below(dataset, &file.name)).or_default() += 1;
    }
    let place = |file: &FileReplicas| {
        let short = below(dataset, &file.name);
        let is_alone = counts.get(&short).is_none_or(|count| *count == 1);
        let is_below = file.name.strip_prefix(dataset).is_some_and(|rest| rest.starts_with('/'));
        if is_alone || is_below { short } else { file.name.replacen(':', "/", 1) }
    };
    let places: Vec<String> = files.iter().map(place).collect();
    let mut taken: HashMap<&str, &str> = HashMap::new();
    for (file, to) in files.iter().zip(&places) {
        if let Some(other) = taken.insert(to, &file.name) {
            let reason = format!("{other} and {} would both go to {to}: get the files one by one", file.name);
            return Err(Failure::usage(reason));
        }
    }
    Ok(places)
}

/// The target path of a dataset's file: its name without that of the dataset, or its whole name.
fn below(dataset: &str, file: &str) -> String {
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
        assert_eq!(below("s:run/7", "s:run/7/a/b"), "a/b");
        assert_eq!(below("s:run/7", "s:other/f"), "other/f");
        assert_eq!(below("s:run/7/f", "s:run/7/f"), "f");
        assert_eq!(below("s:run", "s:running/f"), "running/f");
    }

    #[test]
    fn files_of_two_scopes_do_not_go_to_one_path() {
        let file = |name: &str| FileReplicas { name: name.into(), ..FileReplicas::default() };
        let files = ["s:run/7/cal.fits", "t:cal.fits", "u:cal.fits", "t:other"].map(file);
        assert_eq!(places("s:run/7", &files).unwrap(), ["cal.fits", "t/cal.fits", "u/cal.fits", "other"]);
        let files = ["s:run/7/t/cal.fits", "t:cal.fits", "s:run/7/cal.fits"].map(file);
        let refused = places("s:run/7", &files).unwrap_err();
        assert!(refused.message.contains("would both go to t/cal.fits"), "{}", refused.message);
    }
}
