//! The JSON of messages: names, types and spellings are those of FTS (fts3, `activemq/msg-ifce.cpp`), mistakes included.

use serde_json::{Map, Value, json};

use crate::database::messages::FileChange;
use crate::fts::forms::{FtsFacts, file_state, job_state, storage};
use crate::states::{FileState, JobKind};
use crate::time;

/// The facts that both messages of a change need.
struct Facts<'a> {
    change: &'a FileChange,
    fts: FtsFacts,
}

impl Facts<'_> {
    fn of(change: &FileChange) -> Facts<'_> {
        let fts = change.job.fts.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        Facts { change, fts }
    }

    fn user_dn(&self) -> String {
        if self.fts.user_dn.is_empty() {
            format!("/CN={}", self.change.job.job.owner)
        } else {
            self.fts.user_dn.clone()
        }
    }

    fn file_metadata(&self) -> Value {
        let metadata = &self.change.file.metadata;
        if metadata.is_empty() { Value::Null } else { json!(metadata) }
    }

    fn job_metadata(&self) -> Value {
        let metadata = &self.change.job.job.metadata;
        if metadata.is_empty() { Value::Null } else { json!(metadata) }
    }

    /// The state of the job. A running file implies an active job, and a new file that waits a submitted job; otherwise the job's own state
    /// counts.
    fn job_state(&self) -> &'static str {
        match (self.change.state, self.change.before) {
            (FileState::Running, _) => "ACTIVE",
            (FileState::Queued | FileState::Standby, None) => "SUBMITTED",
            _ => job_state(&self.change.job),
        }
    }

    fn retry(&self) -> u64 {
        self.change.file.attempts.saturating_sub(1)
    }

    fn retry_max(&self) -> i64 {
        self.fts.params.get("retry").and_then(Value::as_i64).unwrap_or(0).max(0)
    }

    fn reason(&self) -> String {
        match self.change.state {
            FileState::Done => String::new(),
            _ => self.change.file.error.clone().unwrap_or_default(),
        }
    }
}

/// A time in milliseconds; 0 for none, as in FTS.
fn ms(at: Option<&String>) -> i64 {
    at.and_then(|text| time::parse(text)).unwrap_or(0)
}

/// The host of a URL, without its port.
fn host(url: &str) -> String {
    let authority = storage(url).split_once("://").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host.to_owned(),
        _ => authority,
    }
}

fn scheme(url: &str) -> &str {
    url.split_once("://").map_or("", |(scheme, _)| scheme)
}

/// The message of the end of an attempt: it succeeded, is tried again, failed, or was cancelled.
pub(super) fn complete(endpoint: &str, change: &FileChange) -> Value {
    let facts = Facts::of(change);
    let mut message = Map::new();
    // Fields for facts that the hub does not know have the values that FTS writes if something did not happen.
    message.extend(ALWAYS_ZERO.map(|name| (name.to_owned(), json!(0))));
    message.extend(ALWAYS_EMPTY.map(|name| (name.to_owned(), json!(""))));
    for part in [facts.ends(endpoint), facts.outcome(), facts.job()] {
        if let Value::Object(part) = part {
            message.extend(part);
        }
    }
    Value::Object(message)
}

impl Facts<'_> {
    /// The fields that name the file, its source and its target.
    fn ends(&self, endpoint: &str) -> Value {
        let (file, job) = (&self.change.file, &self.change.job.job);
        let (source, target) = (file.source.as_str(), file.target.as_str());
        let (source_se, target_se) = (storage(source), storage(target));
        let (source_host, target_host) = (host(source), host(target));
        let id = format!("{}__{source_host}__{target_host}__{}__{}", minute(self.began()), file.number, job.id);
        json!({
            "tr_id": id,
            "job_id": job.id.to_string(),
            "file_id": file.number,
            "endpnt": endpoint,
            "vo": job.community,
            "src_url": source,
            "dst_url": target,
            "src_hostname": source_host,
            "dst_hostname": target_host,
            "src_se": source_se,
            "dst_se": target_se,
            "t_channel": format!("{source_se}__{target_se}"),
            "final_destination": target,
            "protocol": scheme(source),
            "src_protocol": scheme(source),
            "dst_protocol": scheme(target),
            "src_transfer_protocol": scheme(source),
            "dst_transfer_protocol": scheme(target),
            "protocol_translation": scheme(source) != scheme(target),
        })
    }

    fn began(&self) -> i64 {
        ms(self.change.file.started.as_ref())
    }

    /// The fields of the outcome and its times.
    fn outcome(&self) -> Value {
        let file = &self.change.file;
        let (began, ended) = (self.began(), self.change.at);
        let took = if began > 0 { (ended - began).max(0) } else { 0 };
        let (state, flag) = match self.change.state {
            FileState::Done => ("Ok", 1),
            FileState::Cancelled => ("Abort", -1),
            _ => ("Error", 0),
        };
        let moved = if self.change.state == FileState::Done { file.bytes } else { 0 };
        let (phase, category) = match flag {
            0 => ("TRANSFER", file.fault.as_deref().unwrap_or_default()),
            _ => ("", ""),
        };
        // One line without quotes, as FTS writes it.
        let is_kept = |c: &char| !matches!(c, '\'' | '"') && !c.is_control();
        let error: String = self.reason().chars().filter(is_kept).take(ERROR_CHARS_MAX).collect();
        json!({
            "t_final_transfer_state": state,
            "t_final_transfer_state_flag": flag,
            "tr_error_scope": phase,
            "t_failure_phase": phase,
            "tr_error_category": category,
            "t__error_message": error,
            "tr_bt_transfered": moved,
            "f_size": file.bytes,
            "file_size": file.bytes,
            "timestamp_tr_st": began,
            "timestamp_tr_comp": ended,
            "tr_timestamp_start": began,
            "tr_timestamp_complete": ended,
            "transfer_time": took,
            "operation_time": took,
            "throughput": if took > 0 { moved as f64 * 1000.0 / took as f64 } else { 0.0 },
            "is_recoverable": self.change.state == FileState::Queued,
        })
    }

    /// The fields of the owner, the VO and the job.
    fn job(&self) -> Value {
        let (file, stored) = (&self.change.file, &self.change.job);
        let last = stored.first_file + stored.file_rows - 1;
        json!({
            "user_dn": self.user_dn(),
            "file_metadata": self.file_metadata(),
            "job_metadata": self.job_metadata(),
            "activity": stored.job.activity,
            "retry": self.retry(),
            "retry_max": self.retry_max(),
            "job_m_replica": stored.kind == JobKind::MultiSource,
            "job_multihop": stored.kind == JobKind::MultiHop,
            "transfer_lasthop": stored.kind != JobKind::MultiHop || file.number == last,
            "is_archiving": false,
            "job_state": self.job_state(),
            "auth_method": stored.job.metadata.get("auth_method").cloned().unwrap_or_else(|| json!("")),
            "channel_type": "urlcopy",
            "ipver": "unknown",
            "overwrite_on_disk_flag": false,
            "scitag": self.fts.params.get("scitag").and_then(Value::as_u64).unwrap_or(0),
        })
    }
}

/// `YYYY-MM-DD-HHMM`, with which FTS's ids of transfers begin.
fn minute(at: i64) -> String {
    jiff::Timestamp::from_millisecond(at).map_or_else(|_| String::new(), |at| at.strftime("%Y-%m-%d-%H%M").to_string())
}

/// The most characters of an error's text.
const ERROR_CHARS_MAX: usize = 1024;
/// Numeric fields that are always 0.
const ALWAYS_ZERO: [&str; 24] = [
    "timestamp_chk_src_st",
    "timestamp_chk_src_ended",
    "timestamp_checksum_dest_st",
    "timestamp_checksum_dest_ended",
    "t_timeout",
    "chk_timeout",
    "nstreams",
    "buf_size",
    "tcp_buf_size",
    "block_size",
    "time_srm_prep_st",
    "time_srm_prep_end",
    "time_srm_fin_st",
    "time_srm_fin_end",
    "srm_preparation_time",
    "srm_finalization_time",
    "srm_overhead_time",
    "srm_overhead_percentage",
    "timestamp_checksum_src_diff",
    "timestamp_checksum_dst_diff",
    "eviction_code",
    "cleanup_code",
    "overwrite_on_disk_deletion_code",
    "t_error_code",
];
/// Text fields that are always empty.
const ALWAYS_EMPTY: [&str; 7] = [
    "srm_space_token_src",
    "srm_space_token_dst",
    "src_srm_v",
    "dest_srm_v",
    "src_site_name",
    "dst_site_name",
    "transfer_type",
];

/// The message of a change of a file.
pub(super) fn state(change: &FileChange) -> Value {
    let facts = Facts::of(change);
    let job = &change.job.job;
    let mut file = change.file.clone();
    file.state = change.state.word().to_owned();
    json!({
        "user_dn": facts.user_dn(),
        "src_url": file.source,
        "dst_url": file.target,
        "vo_name": job.community,
        "source_se": storage(&file.source),
        "dest_se": storage(&file.target),
        "job_id": job.id.to_string(),
        "file_id": file.number,
        "job_state": facts.job_state(),
        "file_state": file_state(&file),
        "retry_counter": facts.retry(),
        "retry_max": facts.retry_max(),
        "user_filesize": file.bytes,
        "timestamp": change.at,
        "submit_time": ms(Some(&job.submitted)),
        "staging_start": 0,
        "staging_finished": 0,
        "staging": false,
        "archiving_start": 0,
        "archiving_finished": 0,
        "archiving": false,
        "reason": facts.reason(),
        "job_metadata": facts.job_metadata(),
        "file_metadata": facts.file_metadata(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use model::v1::hub::{File, Job};

    use super::*;
    use crate::database::jobs::StoredJob;

    /// The names of the fields in fts3 3.14.4; a message has exactly these.
    const COMPLETE: &str = "tr_id job_id file_id endpnt src_srm_v dest_srm_v vo src_url dst_url src_hostname dst_hostname src_se dst_se \
        protocol src_site_name dst_site_name t_channel timestamp_tr_st timestamp_tr_comp timestamp_chk_src_st timestamp_chk_src_ended \
        timestamp_checksum_dest_st timestamp_checksum_dest_ended t_timeout chk_timeout t_error_code tr_error_scope t_failure_phase \
        tr_error_category t_final_transfer_state t_final_transfer_state_flag tr_bt_transfered nstreams buf_size tcp_buf_size block_size \
        scitag f_size file_size time_srm_prep_st time_srm_prep_end time_srm_fin_st time_srm_fin_end srm_space_token_src \
        srm_space_token_dst t__error_message tr_timestamp_start tr_timestamp_complete transfer_time operation_time throughput \
        srm_preparation_time srm_finalization_time srm_overhead_time srm_overhead_percentage timestamp_checksum_src_diff \
        timestamp_checksum_dst_diff channel_type user_dn file_metadata job_metadata activity retry retry_max job_m_replica job_multihop \
        transfer_lasthop is_archiving job_state is_recoverable ipver eviction_code cleanup_code final_destination transfer_type \
        auth_method overwrite_on_disk_flag overwrite_on_disk_deletion_code src_protocol dst_protocol src_transfer_protocol \
        dst_transfer_protocol protocol_translation";
    const STATE: &str = "user_dn src_url dst_url vo_name source_se dest_se job_id file_id job_state file_state retry_counter retry_max \
        user_filesize timestamp submit_time staging_start staging_finished staging archiving_start archiving_finished archiving reason \
        job_metadata file_metadata";

    fn change(state: FileState) -> FileChange {
        let file = File {
            number: 7,
            source: "davs://a.example:8443/d/1".to_owned(),
            target: "davs://b.example/d/1".to_owned(),
            bytes: 1000,
            attempts: 2,
            started: Some(time::show(1_780_000_000_000)),
            fault: Some("missing".to_owned()),
            error: Some("it's not\n\"there\"".to_owned()),
            metadata: BTreeMap::from([("request_id".to_owned(), json!("r1"))]),
            ..File::default()
        };
        let metadata =
            BTreeMap::from([("issuer".to_owned(), json!("rucio")), ("auth_method".to_owned(), json!("certificate"))]);
        let job = Job { owner: "ann".to_owned(), community: "astro".to_owned(), metadata, ..Job::default() };
        let job = StoredJob {
            number: 1,
            kind: JobKind::Independent,
            first_file: 7,
            file_rows: 1,
            options: String::new(),
            fts: Some(json!({"user_dn": "/O=x/CN=ann", "params": {"retry": 3, "scitag": 450}}).to_string()),
            job,
        };
        let before = Some(FileState::Running);
        FileChange { number: 1, at: 1_780_000_002_000, before, state, ends_attempt: true, file, job: Arc::new(job) }
    }

    fn names(message: &Value) -> Vec<&str> {
        message.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn sorted(text: &str) -> Vec<&str> {
        let mut names: Vec<&str> = text.split_whitespace().collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn messages_have_exactly_the_fields_of_fts() {
        let (complete, state) = (complete("hub", &change(FileState::Done)), state(&change(FileState::Done)));
        assert_eq!(names(&complete), sorted(COMPLETE));
        assert_eq!(names(&state), sorted(STATE));
    }

    #[test]
    fn a_message_says_whether_the_attempt_succeeded() {
        let good = complete("hub", &change(FileState::Done));
        assert_eq!(
            good["tr_id"].as_str().unwrap().split("__").collect::<Vec<_>>()[..4],
            ["2026-05-28-2026", "a.example", "b.example", "7"]
        );
        assert_eq!(good["t_channel"], "davs://a.example:8443__davs://b.example");
        assert_eq!(
            (&good["tr_bt_transfered"], &good["transfer_time"], &good["throughput"]),
            (&json!(1000), &json!(2000), &json!(500.0))
        );
        assert_eq!(
            (&good["user_dn"], &good["scitag"], &good["retry_max"]),
            (&json!("/O=x/CN=ann"), &json!(450), &json!(3))
        );
        assert_eq!(
            (&good["job_metadata"]["issuer"], &good["file_metadata"]["request_id"]),
            (&json!("rucio"), &json!("r1"))
        );
        assert_eq!((&good["t__error_message"], &good["t_final_transfer_state_flag"]), (&json!(""), &json!(1)));
        let bad = complete("hub", &change(FileState::Failed));
        assert_eq!(
            (&bad["t_final_transfer_state"], &bad["t__error_message"]),
            (&json!("Error"), &json!("its notthere"))
        );
        let again = complete("hub", &change(FileState::Queued));
        assert_eq!((&again["is_recoverable"], &bad["is_recoverable"]), (&json!(true), &json!(false)));
        assert_eq!(complete("hub", &change(FileState::Cancelled))["t_final_transfer_state"], "Abort");
    }
}
