//! A submission in FTS's words, as an order of the hub.

use std::collections::BTreeMap;

use model::v1::hub::{FileOrder, JobOptions, JobOrder};
use model::{Fault, Refusal};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::forms::{BASE_ID, FtsFacts, storage, user_dn, vo};
use crate::roles::Member;

/// The document that clients send.
#[derive(Debug, Deserialize)]
pub struct Submission {
    /// The files.
    #[serde(default)]
    files: Vec<FtsFile>,
    /// How they are transferred.
    #[serde(default)]
    params: Map<String, Value>,
    /// Files that are to be deleted: not here.
    #[serde(default)]
    delete: Value,
}

/// A file of a submission.
#[derive(Debug, Deserialize)]
struct FtsFile {
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default)]
    destinations: Vec<String>,
    #[serde(default)]
    filesize: Option<f64>,
    #[serde(default)]
    checksum: Option<String>,
    #[serde(default)]
    checksums: Option<String>,
    #[serde(default)]
    activity: Option<String>,
    #[serde(default)]
    metadata: Value,
}

/// An order, with what only FTS's words know of it.
#[derive(Debug)]
pub struct Submitted {
    /// The order.
    pub order: JobOrder,
    /// The rest.
    pub facts: FtsFacts,
}

fn refuse(reason: impl Into<String>) -> Refusal {
    Refusal::new(Fault::Config, reason)
}

impl Submission {
    /// Makes an order of it, for whoever submits.
    ///
    /// # Errors
    /// It asks for what is not done here, or does not fit together: one sentence.
    pub fn order(self, member: &Member, auth_method: &str) -> Result<Submitted, Refusal> {
        if !self.delete.is_null() {
            return Err(refuse("deletions are not done here: delete at the storage"));
        }
        let params = Params(&self.params);
        let activity = self.files.iter().find_map(|file| file.activity.clone());
        let (first, last) = (self.files.first(), self.files.last());
        let facts = FtsFacts {
            user_dn: user_dn(member),
            delegation: String::new(),
            source_se: first.and_then(|file| file.sources.first()).map(|url| storage(url)).unwrap_or_default(),
            dest_se: last.and_then(|file| file.destinations.first()).map(|url| storage(url)).unwrap_or_default(),
            params: self
                .params
                .iter()
                .filter(|(name, _)| !is_secret(name))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        };
        let order = JobOrder {
            id: Some(params.id(member)?),
            community: Some(vo(member)),
            activity,
            priority: params.number("priority").map(|priority| priority.clamp(1, 5) as u8),
            deadline: None,
            options: JobOptions {
                overwrite: params.is_set("overwrite") || params.is_set("overwrite_on_retry"),
                retries: params.retries(),
                queue_for_s: params.queue_for_s()?,
                multihop: params.is_set("multihop"),
                ..JobOptions::default()
            },
            metadata: params.job_metadata(auth_method)?,
            files: Vec::new(),
        };
        let mut files = Vec::with_capacity(self.files.len());
        for (at, file) in self.files.into_iter().enumerate() {
            files_of(at, file, &mut files)?;
        }
        Ok(Submitted { order: JobOrder { files, ..order }, facts })
    }
}

/// Parameters that hold what nobody is told again.
fn is_secret(name: &str) -> bool {
    ["credential", "s3_secret"].contains(&name)
}

/// The files of one entry: one for each destination.
fn files_of(at: usize, file: FtsFile, files: &mut Vec<FileOrder>) -> Result<(), Refusal> {
    if file.sources.is_empty() || file.destinations.is_empty() {
        return Err(refuse(format!("file {at}: it needs sources and destinations")));
    }
    let metadata: BTreeMap<String, Value> = match file.metadata {
        Value::Null => BTreeMap::new(),
        Value::Object(map) => map.into_iter().collect(),
        label => BTreeMap::from([("label".to_owned(), label)]),
    };
    // `ADLER32` alone asks the storage for its digest: nothing is compared with.
    let checksum = file.checksum.or(file.checksums).filter(|text| text.contains(':'));
    for destination in file.destinations {
        files.push(FileOrder {
            sources: file.sources.clone(),
            target: destination,
            bytes: file.filesize.filter(|bytes| *bytes > 0.0).map(|bytes| bytes as u64),
            checksum: checksum.clone(),
            metadata: metadata.clone(),
        });
    }
    Ok(())
}

/// The parameters of a submission.
struct Params<'a>(&'a Map<String, Value>);

impl Params<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        let value = self.0.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    fn is_set(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(is_set)) => *is_set,
            Some(Value::String(text)) => ["true", "y", "yes", "1"].contains(&text.to_ascii_lowercase().as_str()),
            Some(Value::Number(number)) => number.as_i64() == Some(1),
            _ => false,
        }
    }

    /// Below 0 none, 0 what the server takes for right, above 0 so many.
    fn retries(&self) -> Option<u32> {
        match self.number("retry").unwrap_or(0) {
            0 => None,
            below if below < 0 => Some(0),
            above => u32::try_from(above).ok(),
        }
    }

    /// `max_time_in_queue`: a number of hours, or a text with a unit (`30s`, `5m`, `2h`, `1d`).
    fn queue_for_s(&self) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.0.get("max_time_in_queue").filter(|value| !value.is_null()) else { return Ok(None) };
        let wrong = || refuse(format!("max_time_in_queue {value} is no time: hours, or 30s, 5m, 2h, 1d"));
        if let Some(hours) = value.as_u64() {
            return Ok((hours > 0).then_some(hours.saturating_mul(3600)));
        }
        let text = value.as_str().ok_or_else(wrong)?.trim();
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "" | "h" => 3600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        Ok((number > 0).then_some(number.saturating_mul(seconds)))
    }

    fn id(&self, member: &Member) -> Result<Uuid, Refusal> {
        match self.text("id_generator").unwrap_or("standard") {
            "deterministic" => {
                let sid = self.text("sid").ok_or_else(|| refuse("id_generator deterministic needs a sid"))?;
                Ok(Uuid::new_v5(&Uuid::new_v5(&BASE_ID, vo(member).as_bytes()), sid.as_bytes()))
            }
            // Version 1 is what FTS makes; clients take any.
            _ => Ok(Uuid::now_v7()),
        }
    }

    fn job_metadata(&self, auth_method: &str) -> Result<BTreeMap<String, Value>, Refusal> {
        let mut metadata: BTreeMap<String, Value> = match self.0.get("job_metadata") {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(Value::Object(map)) => map.clone().into_iter().collect(),
            Some(Value::String(label)) => BTreeMap::from([("label".to_owned(), json!(label))]),
            Some(_) => return Err(refuse("job_metadata is an object, or a text")),
        };
        metadata.insert("auth_method".to_owned(), json!(auth_method));
        Ok(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(document: Value) -> Result<Submitted, String> {
        let submission: Submission = serde_json::from_value(document).unwrap();
        submission.order(&Member::user("ann", "astro"), "oauth2").map_err(|refusal| refusal.reason)
    }

    fn with(params: Value) -> Value {
        json!({"files": [{"sources": ["davs://a/1"], "destinations": ["davs://b/1", "davs://c/1"], "metadata": "x",
            "filesize": 7, "checksum": "ADLER32:1234"}], "params": params})
    }

    #[test]
    fn a_submission_becomes_an_order() {
        let submitted = order(with(json!({"retry": -1, "priority": 9, "overwrite": true, "max_time_in_queue": "2h",
            "job_metadata": {"issuer": "rucio"}, "credential": "s3cret"})))
        .unwrap();
        let order = submitted.order;
        assert_eq!(order.files.len(), 2, "one for each destination");
        assert_eq!((order.priority, order.options.retries, order.options.queue_for_s), (Some(5), Some(0), Some(7200)));
        assert!(order.options.overwrite && !order.options.multihop);
        assert_eq!(order.files[0].metadata["label"], "x");
        assert_eq!((order.files[0].bytes, order.files[0].checksum.as_deref()), (Some(7), Some("ADLER32:1234")));
        assert_eq!((&order.metadata["issuer"], &order.metadata["auth_method"]), (&json!("rucio"), &json!("oauth2")));
        assert_eq!((submitted.facts.source_se.as_str(), submitted.facts.dest_se.as_str()), ("davs://a", "davs://b"));
        assert!(!submitted.facts.params.contains_key("credential"));
    }

    #[test]
    fn a_deterministic_id_is_made_of_the_vo_and_what_the_client_says() {
        let params = json!({"id_generator": "deterministic", "sid": "abc"});
        let (a, b) = (order(with(params.clone())).unwrap().order.id, order(with(params)).unwrap().order.id);
        assert_eq!(a, b);
        assert_eq!(a, Some(Uuid::new_v5(&Uuid::new_v5(&BASE_ID, b"astro"), b"abc")));
        assert!(order(with(json!({"id_generator": "deterministic"}))).unwrap_err().contains("needs a sid"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(order(json!({"files": [], "delete": ["x"]})).unwrap_err().contains("deletions"));
        assert!(order(json!({"files": [{"sources": ["davs://a/1"]}]})).unwrap_err().contains("file 0: it needs"));
        assert!(order(with(json!({"max_time_in_queue": "soon"}))).unwrap_err().contains("is no time"));
        assert_eq!(order(with(json!({"max_time_in_queue": 3}))).unwrap().order.options.queue_for_s, Some(10_800));
    }
}
