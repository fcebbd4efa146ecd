//! `longhaul data put`: copies files to an endpoint, enters them in the catalogue, then adds a rule that makes the replicas.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use hubapi::Api;
use model::checksum::Algorithm;
use model::v1::hub::{DataChange, DataKind, NewData, NewDataList, NewReplica, RuleOrder, StorageUse};
use model::{Exit, Locator};

use super::source::{FileListLine, copy, distance};
use super::{PAGE, each_file, metadata, rules};
use crate::args::DataPut;
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::local;
use crate::printer::Printer;
use crate::settings::Settings;

/// A file that is to be copied and entered.
struct SourceFile {
    /// Its path below the source.
    path: String,
    /// Its name in the catalogue: `scope:name`.
    name: String,
    bytes: u64,
    adler32: String,
}

/// Runs the command.
pub(super) fn run(put: &DataPut, api: &Api, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let storage = first_endpoint(put, api, settings)?;
    // An impossible rule is an error before anything is moved.
    if let Some(at) = &put.at {
        let matching = api.storage(Some(at)).map_err(failure)?.storage.len();
        if matching < put.copies as usize {
            let reason = format!("--at {at} matches {matching} endpoints, but {} copies are wanted", put.copies);
            return Err(Failure::usage(reason));
        }
    }
    let (root, paths) = files(&put.source)?;
    let source_files = paths.iter().map(|path| source_file(&root, path, &put.name)).collect::<Result<Vec<_>, _>>()?;
    let lines: Vec<FileListLine> =
        source_files.iter().map(|file| list_line(file, &storage)).collect::<Result<_, _>>()?;
    make_dataset(put, api, &source_files)?;
    let source = format!("{}/", root.display());
    let exit = copy(&source, &storage.url, &[], &lines, settings, printer)?;
    if exit != Exit::Done {
        return Ok(exit);
    }
    enter_files(put, api, &storage, &source_files)?;
    if let Some(at) = &put.at {
        let order = RuleOrder {
            id: Some(model::id::Uuid::now_v7().to_string()),
            name: put.name.clone(),
            at: at.clone(),
            copies: Some(put.copies),
            ..RuleOrder::default()
        };
        super::print_value(printer, &api.make_rule(&order).map_err(failure)?, rules::rule_line);
    }
    super::print_value(printer, &api.data(&put.name).map_err(failure)?, super::data_line);
    Ok(Exit::Done)
}

/// The endpoint that files go to first.
fn first_endpoint(put: &DataPut, api: &Api, settings: &Settings) -> Result<StorageUse, Failure> {
    let all = api.storage(put.to.as_deref().or(put.at.as_deref())).map_err(failure)?.storage;
    let none = || match put.to.as_deref().or(put.at.as_deref()) {
        Some(expression) => {
            Failure::usage(format!("{expression} matches no endpoint with storage; longhaul data storage lists them"))
        }
        None => Failure::usage("the hub knows of no endpoint with storage: describe one, [endpoint.NAME.storage]"),
    };
    all.into_iter().min_by_key(|one| distance(&one.url, settings)).ok_or_else(none)
}

/// The directory of a source, and the files below it.
fn files(source: &Path) -> Result<(PathBuf, Vec<String>), Failure> {
    let wrong = |path: &Path, error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let source = source.canonicalize().map_err(|error| wrong(source, error))?;
    if source.is_file() {
        let name = source.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Failure::usage(format!("the name of {} is not UTF-8", source.display())))?;
        return Ok((source.parent().unwrap_or(Path::new("/")).to_owned(), vec![name.to_owned()]));
    }
    let mut found = Vec::new();
    let mut unread = vec![source.clone()];
    while let Some(dir) = unread.pop() {
        for entry in std::fs::read_dir(&dir).map_err(|error| wrong(&dir, error))? {
            let entry = entry.map_err(|error| wrong(&dir, error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| wrong(&dir, error))?;
            if kind.is_dir() {
                unread.push(path);
            } else if kind.is_file() {
                let below = path.strip_prefix(&source).ok().and_then(Path::to_str);
                let below =
                    below.ok_or_else(|| Failure::usage(format!("the name of {} is not UTF-8", path.display())))?;
                found.push(below.to_owned());
            } else {
                let reason = format!("{} is neither a file nor a directory: a dataset has only files", path.display());
                return Err(Failure::usage(reason));
            }
        }
    }
    if found.is_empty() {
        return Err(Failure::usage(format!("there is no file in {}", source.display())));
    }
    found.sort();
    Ok((source, found))
}

/// A file with its size and checksum.
fn source_file(root: &Path, path: &str, dataset: &str) -> Result<SourceFile, Failure> {
    let source = local::source(&Locator::Local(root.join(path)))?;
    let file = source.store.open(&source.path)?;
    let digests = store::digest::of_file(&*file, &source.path, &[Algorithm::Adler32])?;
    let digest = digests.first().map(ToString::to_string).unwrap_or_default();
    let adler32 = digest.rsplit(':').next().unwrap_or_default().to_owned();
    Ok(SourceFile { path: path.to_owned(), name: format!("{dataset}/{path}"), bytes: file.stat()?.meta.size, adler32 })
}

fn list_line(file: &SourceFile, storage: &StorageUse) -> Result<FileListLine, Failure> {
    let name: replicas::DataName =
        file.name.parse().map_err(|error: replicas::NameError| Failure::usage(error.to_string()))?;
    let naming: replicas::Naming = storage.naming.parse().map_err(|error: String| Failure::local(error))?;
    let checksum = Some(format!("adler32:{}", file.adler32));
    Ok(FileListLine { from: file.path.clone(), to: naming.path(&name), checksum })
}

/// Enters the dataset before anything is moved, so that a missing right is an error at once. An existing dataset gets the files.
fn make_dataset(put: &DataPut, api: &Api, source_files: &[SourceFile]) -> Result<(), Failure> {
    let metadata = metadata(&put.meta)?;
    match api.data(&put.name) {
        Ok(data) if data.open == Some(false) => {
            Err(Failure::usage(format!("{} is closed: nothing is added to it; choose another name", put.name)))
        }
        Ok(_) => {
            refuse_changed(put, api, source_files)?;
            let change = DataChange { metadata, ..DataChange::default() };
            api.change_data(&put.name, &change).map(drop).map_err(failure)
        }
        Err(hubapi::Error::Refused { problem, .. }) if problem.status == 404 => {
            let new = NewData { name: put.name.clone(), kind: DataKind::Dataset, metadata, ..NewData::default() };
            api.enter_data(&NewDataList { data: vec![new], into: None }).map(drop).map_err(failure)
        }
        Err(error) => Err(failure(error)),
    }
}

/// Refuses files whose bytes differ from those in the catalogue, before their replicas are overwritten.
fn refuse_changed(put: &DataPut, api: &Api, source_files: &[SourceFile]) -> Result<(), Failure> {
    let by_name: HashMap<&str, &SourceFile> = source_files.iter().map(|file| (file.name.as_str(), file)).collect();
    each_file(api, &put.name, |known| {
        let Some(file) = by_name.get(known.name.as_str()) else { return Ok(()) };
        let is_other = known.adler32.as_ref().is_some_and(|adler32| !adler32.eq_ignore_ascii_case(&file.adler32));
        if is_other || known.bytes != file.bytes {
            let path = put.source.join(&file.path);
            let reason = format!(
                "{} is not what the catalogue knows as {}: data do not change; put it under another name",
                path.display(),
                known.name
            );
            return Err(Failure::usage(reason));
        }
        Ok(())
    })
}

/// Enters the files with their replicas into the dataset, and closes it with `--close`.
fn enter_files(put: &DataPut, api: &Api, storage: &StorageUse, source_files: &[SourceFile]) -> Result<(), Failure> {
    for chunk in source_files.chunks(PAGE) {
        let file = |file: &SourceFile| NewData {
            name: file.name.clone(),
            bytes: Some(file.bytes),
            adler32: Some(file.adler32.clone()),
            replicas: vec![NewReplica { endpoint: storage.endpoint.clone(), path: None }],
            ..NewData::default()
        };
        let list = NewDataList { data: chunk.iter().map(file).collect(), into: Some(put.name.clone()) };
        api.enter_data(&list).map_err(failure)?;
    }
    if put.close {
        let change = DataChange { open: Some(false), ..DataChange::default() };
        api.change_data(&put.name, &change).map_err(failure)?;
    }
    Ok(())
}
