//! Tables of Rucio's database as CSV: `dids.csv`, `contents.csv`, `replicas.csv`, and, if they exist, `scopes.csv`, `rses.csv` and
//! `rules.csv`.
//!
//! Columns are found by their names in the first line: a dump may have further columns, in any order.

use std::collections::HashMap;
use std::path::Path;

use model::v1::hub::{DataKind, Grouping, NewData, NewReplica, RuleOrder};

use super::item::ImportItem;
use crate::failure::Failure;

/// The most names that one request attaches to a dataset.
const CHILDREN_MAX: usize = 1_000;

/// Reads a directory of tables; names are passed to `take` before the datasets that contain them.
pub(super) fn read(dir: &Path, mut take: impl FnMut(ImportItem) -> Result<(), Failure>) -> Result<(), Failure> {
    if let Some(mut scopes) = Table::open(dir, "scopes.csv", &["scope", "account"])? {
        scopes.each(|row| take(ImportItem::Scope(row.text("scope"), row.text("account"))))?;
    }
    let mut dids = Table::open_required(dir, "dids.csv", &["scope", "name", "did_type"])?;
    let mut closed = Vec::new();
    dids.each(|row| {
        let kind = kind(row)?;
        let name = name(row, "scope", "name");
        if kind != DataKind::File && row.is_false("is_open") {
            closed.push(name.clone());
        }
        take(ImportItem::New(NewData {
            kind,
            monotonic: row.is_true("monotonic"),
            ..new_entry(row, name, kind == DataKind::File)?
        }))
    })?;
    let rses = rses(dir)?;
    let mut replicas = Table::open_required(dir, "replicas.csv", &["scope", "name", "bytes", "state"])?;
    replicas.each(|row| {
        // Only available replicas are imported; the rules make the others.
        if row.text("state") != "A" {
            return Ok(());
        }
        let endpoint = match row.optional("rse") {
            Some(rse) => rse,
            None => {
                let id = row.text("rse_id").to_ascii_lowercase().replace('-', "");
                rses.get(&id).cloned().ok_or_else(|| row.wrong(&format!("there is no RSE {id} in rses.csv")))?
            }
        };
        let replicas = vec![NewReplica { endpoint, path: row.optional("path") }];
        take(ImportItem::New(NewData { replicas, ..new_entry(row, name(row, "scope", "name"), true)? }))
    })?;
    contents(dir, &mut take)?;
    closed.into_iter().try_for_each(|name| take(ImportItem::Closed(name)))?;
    if let Some(mut rules) = Table::open(dir, "rules.csv", &["id", "scope", "name", "rse_expression"])? {
        rules.each(|row| take(ImportItem::Rule(rule(row)?)))?;
    }
    Ok(())
}

/// The names of RSEs by their ids.
fn rses(dir: &Path) -> Result<HashMap<String, String>, Failure> {
    let mut names = HashMap::new();
    if let Some(mut rses) = Table::open(dir, "rses.csv", &["id", "rse"])? {
        rses.each(|row| {
            names.insert(row.text("id").to_ascii_lowercase().replace('-', ""), row.text("rse"));
            Ok(())
        })?;
    }
    Ok(names)
}

fn contents(dir: &Path, take: &mut impl FnMut(ImportItem) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut table = Table::open_required(dir, "contents.csv", &["scope", "name", "child_scope", "child_name"])?;
    let mut collection = String::new();
    let mut names = Vec::new();
    table.each(|row| {
        let parent = name(row, "scope", "name");
        if (parent != collection || names.len() >= CHILDREN_MAX) && !names.is_empty() {
            take(ImportItem::Contents { of: collection.clone(), names: std::mem::take(&mut names) })?;
        }
        collection = parent;
        names.push(name(row, "child_scope", "child_name"));
        Ok(())
    })?;
    if names.is_empty() { Ok(()) } else { take(ImportItem::Contents { of: collection, names }) }
}

fn name(row: &Row<'_>, scope: &str, name: &str) -> String {
    format!("{}:{}", row.text(scope), row.text(name))
}

fn new_entry(row: &Row<'_>, name: String, is_file: bool) -> Result<NewData, Failure> {
    let bytes = match row.optional("bytes") {
        Some(bytes) if is_file => {
            Some(bytes.parse().map_err(|_| row.wrong(&format!("{bytes:?} is not a size in bytes")))?)
        }
        _ => None,
    };
    let checksum = |column: &str| row.optional(column).filter(|_| is_file);
    let expires = row.optional("expired_at").map(time);
    Ok(NewData { name, bytes, adler32: checksum("adler32"), md5: checksum("md5"), expires, ..NewData::default() })
}

/// A time of Rucio's database: UTC without a time zone.
fn time(text: String) -> String {
    format!("{}Z", text.trim_end_matches('Z').replacen(' ', "T", 1))
}

fn kind(row: &Row<'_>) -> Result<DataKind, Failure> {
    match row.text("did_type").as_str() {
        "F" | "FILE" => Ok(DataKind::File),
        "D" | "DATASET" => Ok(DataKind::Dataset),
        "C" | "CONTAINER" => Ok(DataKind::Container),
        other => Err(row.wrong(&format!("{other:?} is not a did_type: F, D or C"))),
    }
}

fn rule(row: &Row<'_>) -> Result<RuleOrder, Failure> {
    let number = |column: &str| -> Result<Option<u32>, Failure> {
        let wrong = |text: &String| row.wrong(&format!("{column} {text:?} is not a number"));
        row.optional(column).map(|text| text.parse().map_err(|_| wrong(&text))).transpose()
    };
    let grouping = match row.optional("grouping").as_deref() {
        Some("A" | "ALL") => Grouping::All,
        Some("N" | "NONE") => Grouping::File,
        _ => Grouping::Dataset,
    };
    Ok(RuleOrder {
        id: Some(row.text("id")),
        name: name(row, "scope", "name"),
        copies: number("copies")?,
        at: row.text("rse_expression"),
        grouping,
        weight: row.optional("weight"),
        expires: row.optional("expires_at").map(time),
        priority: number("priority")?.map(|priority| priority.clamp(1, 5) as u8),
        activity: row.optional("activity"),
        account: row.optional("account"),
        from: row.optional("source_replica_expression"),
        comment: row.optional("comments"),
        ..RuleOrder::default()
    })
}

/// A table, read row by row.
struct Table {
    name: String,
    columns: HashMap<String, usize>,
    rows: csv::Reader<std::fs::File>,
}

/// A row of a table.
struct Row<'a> {
    table: &'a str,
    columns: &'a HashMap<String, usize>,
    record: &'a csv::StringRecord,
}

impl Table {
    /// Opens a table that must exist, with at least these columns.
    fn open_required(dir: &Path, name: &str, columns: &[&str]) -> Result<Table, Failure> {
        let path = dir.join(name);
        Table::open(dir, name, columns)?.ok_or_else(|| Failure::usage(format!("there is no {}", path.display())))
    }

    fn open(dir: &Path, name: &str, columns: &[&str]) -> Result<Option<Table>, Failure> {
        let path = dir.join(name);
        if !path.exists() {
            return Ok(None);
        }
        let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
        let mut rows = csv::Reader::from_path(&path).map_err(|error| wrong(error.to_string()))?;
        let header = rows.headers().map_err(|error| wrong(error.to_string()))?.clone();
        let named: HashMap<String, usize> =
            header.iter().enumerate().map(|(at, column)| (column.trim().to_ascii_lowercase(), at)).collect();
        match columns.iter().find(|column| !named.contains_key(**column)) {
            Some(missing) => Err(wrong(format!("its first line names no column {missing}"))),
            None => Ok(Some(Table { name: path.display().to_string(), columns: named, rows })),
        }
    }

    fn each(&mut self, mut act: impl FnMut(&Row<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut record = csv::StringRecord::new();
        loop {
            let read = self.rows.read_record(&mut record);
            if !read.map_err(|error| Failure::usage(format!("{}: {error}", self.name)))? {
                return Ok(());
            }
            act(&Row { table: &self.name, columns: &self.columns, record: &record })?;
        }
    }
}

impl Row<'_> {
    /// A value; empty where there is none.
    fn text(&self, column: &str) -> String {
        self.columns.get(column).and_then(|at| self.record.get(*at)).unwrap_or_default().to_owned()
    }

    /// A value, if there is one.
    fn optional(&self, column: &str) -> Option<String> {
        Some(self.text(column)).filter(|text| !text.is_empty() && text != "\\N")
    }

    fn is_true(&self, column: &str) -> bool {
        ["1", "t", "true"].iter().any(|word| self.text(column).eq_ignore_ascii_case(word))
    }

    fn is_false(&self, column: &str) -> bool {
        ["0", "f", "false"].iter().any(|word| self.text(column).eq_ignore_ascii_case(word))
    }

    fn wrong(&self, why: &str) -> Failure {
        let line = self.record.position().map_or(0, csv::Position::line);
        Failure::usage(format!("{}: line {line}: {why}", self.table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(files: &[(&str, &str)]) -> Result<Vec<String>, Failure> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let mut items = Vec::new();
        read(dir.path(), |item| {
            items.push(format!("{item:?}"));
            Ok(())
        })?;
        Ok(items)
    }

    const DIDS: (&str, &str) =
        ("dids.csv", "name,scope,did_type,is_open,bytes,adler32\nd,s,D,0,,\nf,s,F,,10,0000000A\n");
    const CONTENTS: (&str, &str) = ("contents.csv", "scope,name,child_scope,child_name\ns,d,s,f\n");
    const REPLICAS: (&str, &str) =
        ("replicas.csv", "scope,name,rse_id,bytes,state,path\ns,f,AB-CD,10,A,\ns,f,abcd,10,C,\n");
    const RSES: (&str, &str) = ("rses.csv", "id,rse\nabcd,CERN\n");

    #[test]
    fn columns_are_found_by_their_names() {
        let rules = (
            "rules.csv",
            "id,scope,name,rse_expression,copies,grouping,expires_at,account\n\
                                   0123,s,d,tier=1,2,N,2030-01-02 03:04:05,ann\n",
        );
        let all = items(&[DIDS, CONTENTS, REPLICAS, RSES, rules]).unwrap();
        for (item, parts) in all.iter().zip([
            vec!["New", "\"s:d\"", "Dataset"],
            vec!["New", "\"s:f\"", "bytes: Some(10)", "0000000A"],
            vec!["New", "\"s:f\"", "endpoint: \"CERN\"", "path: None"],
            vec!["Contents", "of: \"s:d\"", "[\"s:f\"]"],
            vec!["Closed(\"s:d\")"],
            vec!["Rule", "copies: Some(2)", "grouping: File", "2030-01-02T03:04:05Z", "account: Some(\"ann\")"],
        ]) {
            assert!(parts.iter().all(|part| item.contains(part)), "{item} lacks one of {parts:?}");
        }
        assert_eq!(all.len(), 6, "a replica that is not available is not imported: {all:?}");
    }

    #[test]
    fn errors_name_the_table_and_the_line() {
        let wrong = |files: &[(&str, &str)]| items(files).unwrap_err().message;
        assert!(wrong(&[]).contains("dids.csv"));
        assert!(wrong(&[("dids.csv", "scope,name\n")]).contains("no column did_type"));
        assert!(wrong(&[("dids.csv", "scope,name,did_type\ns,f,X\n")]).contains("line 2: \"X\" is not a did_type"));
        assert!(wrong(&[DIDS, CONTENTS, REPLICAS]).contains("line 2: there is no RSE abcd in rses.csv"));
        let size = ("dids.csv", "scope,name,did_type,bytes\ns,f,F,many\n");
        assert!(wrong(&[size]).contains("\"many\" is not a size in bytes"));
    }
}
