//! The parameters of a submission.

use std::collections::BTreeMap;

use model::Refusal;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::refuse;
use crate::fts::forms::{BASE_ID, vo};
use crate::roles::Member;

/// The most bytes of a job's metadata.
const JOB_METADATA_MAX: usize = 2048;

/// The parameters of a submission. Unknown parameters are accepted, as in FTS, and returned with the job.
pub(super) struct Params<'a>(pub &'a Map<String, Value>);

impl Params<'_> {
    pub fn number(&self, name: &str) -> Option<i64> {
        let value = self.0.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub fn is_set(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(is_set)) => *is_set,
            Some(Value::String(text)) => ["true", "y", "yes", "1"].contains(&text.to_ascii_lowercase().as_str()),
            Some(Value::Number(number)) => number.as_i64() == Some(1),
            _ => false,
        }
    }

    /// Refuses inconsistent parameters, and those that the hub cannot carry out.
    pub fn check(&self) -> Result<(), Refusal> {
        const OVERWRITE: [&str; 4] =
            ["overwrite", "overwrite_on_retry", "overwrite_hop", "overwrite_when_only_on_disk"];
        let set: Vec<&str> = OVERWRITE.into_iter().filter(|name| self.is_set(name)).collect();
        if set.len() > 1 && set != OVERWRITE[2..] {
            return Err(refuse(format!("{} exclude one another", set.join(" and "))));
        }
        if self.is_set("overwrite_hop") && !self.is_set("multihop") {
            return Err(refuse("overwrite_hop is for multihop jobs"));
        }
        if self.is_set("overwrite_when_only_on_disk") && self.number("archive_timeout").unwrap_or(0) <= 0 {
            return Err(refuse("overwrite_when_only_on_disk is for copies to tape: it needs archive_timeout"));
        }
        for name in ["bring_online", "copy_pin_lifetime", "archive_timeout"] {
            if self.number(name).unwrap_or(0) > 0 {
                return Err(refuse(format!(
                    "{name}: no tape is staged or archived for FTS clients; submit without it, for files on disk"
                )));
            }
        }
        if self.is_set("ipv4") && self.is_set("ipv6") {
            return Err(refuse("ipv4 and ipv6 exclude one another"));
        }
        let verify = self.text("verify_checksum").and_then(|text| text.chars().next());
        if verify.is_some_and(|first| !"nstbNSTB".contains(first)) {
            return Err(refuse("verify_checksum is none, source, target or both"));
        }
        Ok(())
    }

    /// The number of retries: a negative parameter means 0, and 0 means the default of the hub.
    pub fn retries(&self) -> Option<u32> {
        match self.number("retry").unwrap_or(0) {
            0 => None,
            negative if negative < 0 => Some(0),
            count => u32::try_from(count).ok(),
        }
    }

    /// `max_time_in_queue`: a number of hours, or a text with a unit (`30s`, `5m`, `2h`, `1d`).
    pub fn queue_for_s(&self) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.0.get("max_time_in_queue").filter(|value| !value.is_null()) else { return Ok(None) };
        let wrong = || refuse(format!("max_time_in_queue {value} is not a valid time: hours, or 30s, 5m, 2h, 1d"));
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

    pub fn id(&self, member: &Member) -> Result<Uuid, Refusal> {
        match self.text("id_generator").unwrap_or("standard") {
            "deterministic" => {
                let sid = self.text("sid").ok_or_else(|| refuse("id_generator deterministic needs a sid"))?;
                Ok(Uuid::new_v5(&Uuid::new_v5(&BASE_ID, vo(member).as_bytes()), sid.as_bytes()))
            }
            // FTS makes ids of version 1; its clients accept any version.
            _ => Ok(Uuid::now_v7()),
        }
    }

    pub fn job_metadata(&self, auth_method: &str) -> Result<BTreeMap<String, Value>, Refusal> {
        let value = self.0.get("job_metadata").unwrap_or(&Value::Null);
        metadata("job_metadata", value, JOB_METADATA_MAX).map_err(refuse)?;
        let mut all: BTreeMap<String, Value> = match value {
            Value::Null => BTreeMap::new(),
            Value::Object(map) => map.clone().into_iter().collect(),
            Value::String(label) => BTreeMap::from([("label".to_owned(), json!(label))]),
            _ => return Err(refuse("job_metadata is an object, or a text")),
        };
        all.insert("auth_method".to_owned(), json!(auth_method));
        Ok(all)
    }
}

/// Checks the length of metadata.
pub(super) fn metadata(name: &str, value: &Value, most: usize) -> Result<(), String> {
    let bytes = if value.is_null() { 0 } else { value.to_string().len() };
    if bytes > most {
        return Err(format!("{name} has {bytes} bytes, and may have {most} at most"));
    }
    Ok(())
}
