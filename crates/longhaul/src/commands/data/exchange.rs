//! `longhaul data export` and `import`: move the content of one catalogue to another one, as lines of JSON.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use hubapi::{Api, DataQuery};
use jiff::Timestamp;
use model::Exit;
use model::v1::hub::{
    Data, DataChange, DataKind, DataNames, NewData, NewDataList, NewReplica, Rule, RuleOrder, ScopeOrder,
};
use serde::{Deserialize, Serialize};

use super::item::ImportItem;
use super::rucio_dump;
use crate::args::DataImport;
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::printer::Printer;

/// Names per request.
const PAGE: usize = 1_000;
/// The number of names after which progress is reported.
const REPORT_EVERY: u64 = 20_000;

/// A line of an exported catalogue. All names come before the contents of datasets and containers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CatalogueLine {
    /// The first line.
    Catalogue {
        /// The version of the format: 1.
        v: u32,
        /// The scope that was exported.
        scope: String,
    },
    /// A name with its metadata; of a file, with its replicas.
    Data(Data),
    /// The names in a dataset or container, or a part of them.
    Contents {
        of: String,
        names: Vec<String>,
    },
    /// A dataset or container that is closed: nothing can be added.
    Closed(String),
    Rule(Rule),
}

/// Exports a scope: its names, their contents and their rules.
///
/// # Errors
/// The hub refuses, or the file cannot be written.
pub(super) fn export(scope: &str, out: Option<&Path>, api: &Api) -> Result<Exit, Failure> {
    let wrong = |error: std::io::Error| Failure::local(format!("cannot write: {error}"));
    let mut to: Box<dyn Write> = match out {
        Some(path) => Box::new(BufWriter::new(File::create(path).map_err(wrong)?)),
        None => Box::new(BufWriter::new(std::io::stdout().lock())),
    };
    let mut write = |line: &CatalogueLine| -> Result<(), Failure> {
        serde_json::to_writer(&mut to, line).map_err(|error| wrong(error.into()))?;
        to.write_all(b"\n").map_err(wrong)
    };
    write(&CatalogueLine::Catalogue { v: 1, scope: scope.to_owned() })?;
    let mut collections: Vec<Data> = Vec::new();
    each_name(api, scope, |data| {
        if data.kind != DataKind::File {
            collections.push(data.clone());
        }
        write(&CatalogueLine::Data(data))
    })?;
    for data in &collections {
        let mut after: Option<String> = None;
        loop {
            let page = api.contents(&data.name, after.as_deref(), PAGE).map_err(failure)?;
            let names = page.data.into_iter().map(|child| child.name).collect();
            write(&CatalogueLine::Contents { of: data.name.clone(), names })?;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if data.open == Some(false) {
            write(&CatalogueLine::Closed(data.name.clone()))?;
        }
    }
    each_rule(api, scope, |rule| write(&CatalogueLine::Rule(rule)))?;
    to.flush().map_err(wrong)?;
    Ok(Exit::Done)
}

fn each_name(api: &Api, scope: &str, mut act: impl FnMut(Data) -> Result<(), Failure>) -> Result<(), Failure> {
    let query = DataQuery { scope: scope.to_owned(), replicas: true, ..DataQuery::default() };
    let mut after: Option<String> = None;
    loop {
        let page = api.list_data(&query, after.as_deref(), PAGE).map_err(failure)?;
        page.data.into_iter().try_for_each(&mut act)?;
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Calls `act` for each rule of the scope's names.
fn each_rule(api: &Api, scope: &str, mut act: impl FnMut(Rule) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut before = None;
    loop {
        let page = api.rules(None, before, PAGE).map_err(failure)?;
        let is_of_scope = |rule: &Rule| rule.name.split_once(':').is_some_and(|(of, _)| of == scope);
        page.rules.into_iter().filter(is_of_scope).try_for_each(&mut act)?;
        before = page.next;
        if before.is_none() {
            return Ok(());
        }
    }
}

/// The result of an import, as JSON.
#[derive(Debug, Default, Serialize)]
struct ImportReport {
    v: u32,
    event: &'static str,
    new: u64,
    known: u64,
    rules: u64,
    conflicts: u64,
    skipped_replicas: u64,
    /// Endpoints that replicas name and that this hub does not know.
    unknown_endpoints: Vec<String>,
}

/// Imports the content of another catalogue.
///
/// # Errors
/// The file cannot be read, or the hub fails. Conflicts are counted and reported instead.
pub(super) fn import(import: &DataImport, api: &Api, printer: &Printer) -> Result<Exit, Failure> {
    let mut importer = Importer {
        api,
        printer,
        import,
        waiting: Vec::new(),
        conflicting_names: HashSet::new(),
        report: ImportReport::default(),
        reported_names: 0,
    };
    if import.rucio {
        rucio_dump::read(&import.from, |item| importer.take(item))?;
    } else {
        read(&import.from, |item| importer.take(item))?;
    }
    importer.end()
}

/// Reads lines as [`export`] writes them.
fn read(path: &Path, mut take: impl FnMut(ImportItem) -> Result<(), Failure>) -> Result<(), Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let file: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(BufReader::new(std::io::stdin().lock())),
        _ => Box::new(BufReader::new(File::open(path).map_err(|error| wrong(error.to_string()))?)),
    };
    for (at, text) in file.lines().enumerate() {
        let text = text.map_err(|error| wrong(error.to_string()))?;
        let line: CatalogueLine =
            serde_json::from_str(&text).map_err(|error| wrong(format!("line {}: {error}", at + 1)))?;
        match line {
            CatalogueLine::Catalogue { v: 1, .. } if at == 0 => {}
            CatalogueLine::Catalogue { v, .. } => {
                return Err(wrong(format!("line {}: its format version is {v}; this program reads version 1", at + 1)));
            }
            _ if at == 0 => return Err(wrong("it does not begin with {\"catalogue\": …}".into())),
            CatalogueLine::Data(data) => take(ImportItem::New(new_entry(data)))?,
            CatalogueLine::Contents { of, names } => take(ImportItem::Contents { of, names })?,
            CatalogueLine::Closed(name) => take(ImportItem::Closed(name))?,
            CatalogueLine::Rule(rule) => take(ImportItem::Rule(rule_order(rule)))?,
        }
    }
    Ok(())
}

/// A name of another catalogue as an entry for this one, with its available replicas.
fn new_entry(data: Data) -> NewData {
    let available = data.replicas.into_iter().filter(|copy| copy.state == "available");
    let is_file = data.kind == DataKind::File;
    NewData {
        name: data.name,
        kind: data.kind,
        bytes: is_file.then_some(data.bytes),
        adler32: data.adler32,
        md5: data.md5,
        metadata: data.metadata,
        monotonic: data.monotonic,
        expires: data.expires,
        replicas: available.map(|copy| NewReplica { endpoint: copy.endpoint, path: copy.path }).collect(),
    }
}

/// A rule of another catalogue as an order for this one.
fn rule_order(rule: Rule) -> RuleOrder {
    RuleOrder {
        id: Some(rule.id),
        name: rule.name,
        copies: Some(rule.copies),
        at: rule.at,
        grouping: rule.grouping,
        weight: rule.weight,
        expires: rule.expires,
        priority: Some(rule.priority),
        activity: Some(rule.activity),
        community: Some(rule.community),
        account: Some(rule.account),
        from: rule.from,
        // The hub refuses a deadline that has passed.
        deadline: rule.deadline.filter(|at| at.parse().is_ok_and(|at: Timestamp| at > Timestamp::now())),
        comment: rule.comment,
    }
}

/// Imports items, many names per request.
struct Importer<'a> {
    api: &'a Api,
    printer: &'a Printer,
    import: &'a DataImport,
    /// Names that have not been sent yet.
    waiting: Vec<NewData>,
    /// Names that stand for other data in this catalogue: nothing is attached to them, and they are attached to nothing.
    conflicting_names: HashSet<String>,
    report: ImportReport,
    /// The number of names at the last report of progress.
    reported_names: u64,
}

impl Importer<'_> {
    /// Imports an item. Names are collected and sent many at once.
    fn take(&mut self, item: ImportItem) -> Result<(), Failure> {
        if let ImportItem::New(mut new) = item {
            new.replicas.iter_mut().for_each(|copy| self.rename(copy));
            // A name may come more than once; a request may contain it only once.
            match self.waiting.iter_mut().find(|known| known.name == new.name) {
                Some(known) if agrees(known, &new) => {
                    known.replicas.append(&mut new.replicas);
                    return Ok(());
                }
                Some(_) => self.send()?,
                None => {}
            }
            self.waiting.push(new);
            return if self.waiting.len() >= PAGE { self.send() } else { Ok(()) };
        }
        self.send()?;
        match item {
            ImportItem::New(_) => {}
            ImportItem::Scope(scope, account) => {
                let made = self.api.make_scope(&scope, &ScopeOrder { account: Some(account) });
                self.count_refusal(made.map(drop), &scope)?;
            }
            ImportItem::Contents { of, names } if !self.conflicting_names.contains(&of) => {
                let names: Vec<String> =
                    names.into_iter().filter(|name| !self.conflicting_names.contains(name)).collect();
                if !names.is_empty() {
                    let attached = self.api.attach(&of, &DataNames { names });
                    self.count_refusal(attached.map(drop), &of)?;
                }
            }
            ImportItem::Closed(name) if !self.conflicting_names.contains(&name) => {
                let closed = self.api.change_data(&name, &DataChange { open: Some(false), ..DataChange::default() });
                self.count_refusal(closed.map(drop), &name)?;
            }
            ImportItem::Rule(order) if self.import.rules && !self.conflicting_names.contains(&order.name) => {
                let what = format!("the rule {} of {}", order.id.as_deref().unwrap_or_default(), order.name);
                let made = self.api.make_rule(&order);
                self.report.rules += u64::from(made.is_ok());
                self.count_refusal(made.map(drop), &what)?;
            }
            ImportItem::Contents { .. } | ImportItem::Closed(_) | ImportItem::Rule(_) => {}
        }
        Ok(())
    }

    /// Replaces the name of a replica's endpoint with its name at this hub (`--endpoint THEIRS=OURS`).
    fn rename(&self, copy: &mut NewReplica) {
        let name = self.import.endpoint.iter().find_map(|(theirs, ours)| (*theirs == copy.endpoint).then_some(ours));
        if let Some(name) = name {
            copy.endpoint.clone_from(name);
        }
    }

    /// Sends the waiting names.
    fn send(&mut self) -> Result<(), Failure> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let list = NewDataList { data: std::mem::take(&mut self.waiting), into: None };
        let merged = self.api.merge_data(&list).map_err(failure)?;
        self.report.new += merged.new;
        self.report.known += merged.known;
        self.report.skipped_replicas += merged.skipped_replicas;
        for endpoint in merged.unknown_endpoints {
            if !self.report.unknown_endpoints.contains(&endpoint) {
                self.report.unknown_endpoints.push(endpoint);
            }
        }
        for conflict in merged.conflicts {
            self.conflict(&conflict.name, &conflict.why);
            self.conflicting_names.insert(conflict.name);
        }
        let all = self.report.new + self.report.known;
        if self.printer.is_chatty() && all / REPORT_EVERY > self.reported_names / REPORT_EVERY {
            Printer::note(&format!("{all} names so far, {} of them new", self.report.new));
        }
        self.reported_names = all;
        Ok(())
    }

    /// Counts a refusal by the hub as a conflict. Any other error ends the import.
    fn count_refusal(&mut self, outcome: Result<(), hubapi::Error>, what: &str) -> Result<(), Failure> {
        match outcome {
            Err(hubapi::Error::Refused { problem, .. }) if problem.status != 401 => {
                self.conflict(what, &problem.reason);
                Ok(())
            }
            outcome => outcome.map_err(failure),
        }
    }

    fn conflict(&mut self, what: &str, why: &str) {
        self.report.conflicts += 1;
        Printer::note(&format!("{what}: {why}"));
    }

    fn end(mut self) -> Result<Exit, Failure> {
        self.send()?;
        let report = ImportReport { v: 1, event: "import", ..self.report };
        if self.printer.is_json() {
            self.printer.object(&report);
        } else {
            let ImportReport { new, known, rules, conflicts, .. } = &report;
            self.printer
                .line(&format!("{new} names are new, {known} were there, {rules} rules; {conflicts} conflicts"));
            if report.skipped_replicas > 0 {
                let endpoints = report.unknown_endpoints.join(", ");
                let text = format!(
                    "{} copies at endpoints that the hub does not know were left out: {endpoints}; --endpoint THEIRS=OURS maps the names",
                    report.skipped_replicas
                );
                self.printer.line(&text);
            }
        }
        Ok(if report.conflicts > 0 || report.skipped_replicas > 0 { Exit::Partial } else { Exit::Done })
    }
}

/// Whether a second entry of a name agrees with the first one.
fn agrees(known: &NewData, new: &NewData) -> bool {
    let fits = |known: &Option<String>, new: &Option<String>| new.is_none() || known == new;
    let is_of_one_size = new.bytes.is_none() || known.bytes == new.bytes;
    known.kind == new.kind && is_of_one_size && fits(&known.adler32, &new.adler32) && fits(&known.md5, &new.md5)
}
