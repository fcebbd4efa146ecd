//! The documents of FTS3's REST API: jobs, files, the client. Names and values are those of FTS.

use model::v1::Stage;
use model::v1::hub::File;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha1::{Digest, Sha1};
use uuid::Uuid;

use crate::database::jobs::StoredJob;
use crate::roles::Member;
use crate::states::JobKind;
use model::v1::hub::Role;

/// The namespace (UUID version 5) of the ids of VOs, and of the ids that clients make for jobs.
pub const BASE_ID: Uuid = Uuid::from_u128(0x0187_4efb_4735_4595_bc9c_591a_ef82_40c9);

/// The facts of a submission that only the FTS API uses, stored with the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FtsFacts {
    /// The distinguished name under which it was submitted.
    pub user_dn: String,
    /// The id of the proxy that was delegated for it; empty for none.
    pub delegation: String,
    /// The parameters that the client sent, except those with fields of their own.
    pub params: Map<String, Value>,
    /// The storage of the first file's first source.
    pub source_se: String,
    /// The storage of the last file's first destination.
    pub dest_se: String,
    /// How the client wants the next of several sources to be chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection_strategy: Option<String>,
}

/// `SCHEME://HOST[:PORT]` of a URL: what FTS calls a storage element.
pub fn storage(url: &str) -> String {
    let after = url.find("://").map_or(0, |at| at + 3);
    let end = url[after..].find('/').map_or(url.len(), |at| after + at);
    url[..end].to_owned()
}

/// The distinguished name of a member, as the grid writes it: without the parts that proxies add.
pub fn user_dn(member: &Member) -> String {
    member.distinguished_name()
}

/// The virtual organisation of a member: its community.
pub fn vo(member: &Member) -> String {
    if member.community.is_empty() { "default".to_owned() } else { member.community.clone() }
}

/// The attributes of a member: the verified ones of VOMS, or its community.
fn fqans(member: &Member) -> Vec<String> {
    match &member.certificate {
        Some(identity) => identity.fqans().map(str::to_owned).collect(),
        None => vec![vo(member)],
    }
}

/// The delegation id of a member: the first 16 digits of the SHA-1 of its name and attributes.
pub fn delegation_id(member: &Member) -> String {
    let digest = Sha1::digest(user_dn(member) + &fqans(member).concat());
    model::hex::encode(&digest)[..16].to_owned()
}

/// `GET /whoami`.
pub fn whoami(member: &Member, method: &str) -> Value {
    let dn = user_dn(member);
    // Clients derive the ids of jobs from the first one.
    let mut vos = vec![vo(member)];
    let attributes = member.certificate.iter().flat_map(|identity| &identity.attributes);
    vos.extend(attributes.map(|one| one.vo.clone()).filter(|one| *one != vo(member)));
    let vos_id = vos.iter().map(|vo| Uuid::new_v5(&BASE_ID, vo.as_bytes()).to_string());
    let level = match member.role {
        Role::User => json!({"transfer": "vo", "deleg": ""}),
        Role::Operator => json!({"transfer": "all", "deleg": "", "config": "vo"}),
        Role::Admin => {
            json!({"transfer": "all", "deleg": "all", "config": "all", "admin": "all", "datamanagement": "all"})
        }
    };
    json!({
        "user_dn": dn,
        "dn": [dn],
        "base_id": BASE_ID.to_string(),
        "vos_id": vos_id.collect::<Vec<_>>(),
        "vos": vos,
        "voms_cred": fqans(member),
        "roles": [],
        "level": level,
        "delegation_id": delegation_id(member),
        "method": method,
        "is_root": member.role == Role::Admin,
        // This field is not FTS's: it explains why attributes of a limited proxy do not count.
        "limited_proxy": member.certificate.as_ref().is_some_and(|identity| identity.is_limited),
        "voms_refused": member.certificate.iter().flat_map(|identity| &identity.refused_attributes).collect::<Vec<_>>(),
    })
}

/// A time as FTS writes it: UTC without a zone, to the second.
fn time(at: Option<&String>) -> Value {
    match at {
        Some(at) => Value::from(at.split(['.', 'Z']).next().unwrap_or_default()),
        None => Value::Null,
    }
}

/// The state of a job as a word of FTS.
pub fn job_state(stored: &StoredJob) -> &'static str {
    let job = &stored.job;
    let has_ended = job.ended.is_some();
    match job.state {
        Stage::Done => "FINISHED",
        Stage::Cancelled => "CANCELED",
        Stage::Failed => "FAILED",
        Stage::Partial if job.cancelled > 0 => "CANCELED",
        Stage::Partial if stored.kind == JobKind::MultiHop => "FAILED",
        Stage::Partial => "FINISHEDDIRTY",
        _ if has_ended || job.started.is_none() => "SUBMITTED",
        _ => "ACTIVE",
    }
}

/// The FTS facts of a job.
fn facts(stored: &StoredJob) -> FtsFacts {
    stored.fts.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The distinguished name of a job's owner, whether the job came by the FTS API or by the hub's own.
pub fn submitter(stored: &StoredJob) -> String {
    let user_dn = facts(stored).user_dn;
    if user_dn.is_empty() { Member::user(&stored.job.owner, "").distinguished_name() } else { user_dn }
}

/// Whether a parameter is given and true.
fn is_set(facts: &FtsFacts, name: &str) -> bool {
    facts.params.get(name).is_some_and(|it| *it == json!(true) || ["Y", "y", "true"].iter().any(|yes| it == yes))
}

/// FTS's letter for what may be overwritten.
fn overwrite_flag(facts: &FtsFacts) -> Value {
    let set = |name| is_set(facts, name);
    match (set("overwrite_hop"), set("overwrite_when_only_on_disk")) {
        (true, true) => json!("Q"),
        (true, false) => json!("M"),
        (false, true) => json!("D"),
        _ if set("overwrite") => json!("Y"),
        _ if set("overwrite_on_retry") => json!("R"),
        _ => Value::Null,
    }
}

/// The type of a job: independent files, files of one session, several sources, hops.
fn job_type(kind: JobKind, facts: &FtsFacts) -> &'static str {
    match kind {
        JobKind::Independent if is_set(facts, "reuse") => "Y",
        JobKind::Independent => "N",
        JobKind::MultiSource => "R",
        JobKind::MultiHop => "H",
    }
}

/// A job.
pub fn job(stored: &StoredJob) -> Map<String, Value> {
    let facts = facts(stored);
    let job = &stored.job;
    let param = |name: &str| facts.params.get(name).cloned().unwrap_or(Value::Null);
    let or = |name: &str, default: Value| facts.params.get(name).filter(|it| !it.is_null()).cloned().unwrap_or(default);
    let value = json!({
        "job_id": job.id.to_string(),
        "job_state": job_state(stored),
        "job_type": job_type(stored.kind, &facts),
        "job_metadata": job.metadata,
        "job_finished": time(job.ended.as_ref()),
        "submit_time": time(Some(&job.submitted)),
        "user_dn": submitter(stored),
        "vo_name": job.community,
        "priority": job.priority,
        "source_se": facts.source_se,
        "dest_se": facts.dest_se,
        "reason": Value::Null,
        "submit_host": "longhaul",
        "agent_dn": Value::Null,
        "cred_id": Value::Null,
        "retry": or("retry", json!(0)),
        "retry_delay": or("retry_delay", json!(0)),
        "max_time_in_queue": param("max_time_in_queue"),
        "overwrite_flag": overwrite_flag(&facts),
        "verify_checksum": or("verify_checksum", json!("n")),
        "bring_online": or("bring_online", json!(-1)),
        "copy_pin_lifetime": or("copy_pin_lifetime", json!(-1)),
        "archive_timeout": or("archive_timeout", json!(-1)),
        "space_token": param("destination_spacetoken"),
        "source_space_token": param("source_spacetoken"),
        "internal_job_params": Value::Null,
        "cancel_job": job.cancelled > 0,
        "http_status": "200 Ok",
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The state of a file as a word of FTS.
pub fn file_state(file: &File) -> &'static str {
    state_word(&file.state)
}

/// A state of the hub as a word of FTS.
pub fn state_word(state: &str) -> &'static str {
    match state {
        "queued" => "SUBMITTED",
        "running" => "ACTIVE",
        "standby" => "NOT_USED",
        "done" => "FINISHED",
        "cancelled" => "CANCELED",
        _ => "FAILED",
    }
}

/// A file.
pub fn file(stored: &StoredJob, file: &File) -> Map<String, Value> {
    let label = (!file.metadata.is_empty()).then(|| json!(file.metadata));
    let value = json!({
        "file_id": file.number,
        "job_id": stored.job.id.to_string(),
        "file_index": file.index,
        "file_state": file_state(file),
        "source_surl": file.source,
        "dest_surl": file.target,
        "source_se": storage(&file.source),
        "dest_se": storage(&file.target),
        "reason": reason(file),
        "filesize": file.bytes,
        "user_filesize": file.bytes,
        "checksum": file.checksum,
        "file_metadata": label,
        "activity": stored.job.activity,
        "vo_name": stored.job.community,
        "priority": stored.job.priority,
        "retry": file.attempts.saturating_sub(1),
        "start_time": time(file.started.as_ref()),
        "finish_time": time(file.ended.as_ref()),
        "staging_start": Value::Null,
        "staging_finished": Value::Null,
        "archive_start_time": Value::Null,
        "archive_finish_time": Value::Null,
        "tx_duration": Value::Null,
        "throughput": Value::Null,
        "transferred": if file.state == "done" { file.bytes } else { 0 },
        "transfer_host": Value::Null,
        "log_file": Value::Null,
        "selection_strategy": facts(stored).selection_strategy,
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Why a file failed. If the target exists already, clients look for FTS's own sentence.
fn reason(file: &File) -> Value {
    match (&file.error, file.state.as_str()) {
        (Some(_), "done") | (None, _) => Value::Null,
        (Some(error), _) if crate::progress::is_taken(error) => {
            Value::from("Destination file exists and overwrite is not enabled")
        }
        (Some(error), _) => Value::from(error.as_str()),
    }
}

/// The wanted fields of an object; all fields if the list is empty.
pub fn with_fields(mut object: Map<String, Value>, fields: &[String]) -> Value {
    if !fields.is_empty() {
        object.retain(|name, _| fields.contains(name));
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_of_fts() {
        let vo = Uuid::new_v5(&BASE_ID, b"atlas");
        assert_eq!(BASE_ID.to_string(), "01874efb-4735-4595-bc9c-591aef8240c9");
        assert_eq!(vo.get_version_num(), 5);
        assert_eq!(delegation_id(&Member::user("ann", "astro")).len(), 16);
    }

    #[test]
    fn a_storage_is_scheme_and_host() {
        assert_eq!(storage("davs://h:443/a/b"), "davs://h:443");
        assert_eq!(storage("lh://h"), "lh://h");
    }

    #[test]
    fn times_have_no_zone() {
        assert_eq!(time(Some(&"2026-11-26T01:02:03.456Z".to_owned())), "2026-11-26T01:02:03");
        assert_eq!(time(None), Value::Null);
    }
}
