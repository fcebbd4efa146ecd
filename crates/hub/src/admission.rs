//! Turns an order into a job that can be stored. An order that cannot be carried out is refused before anything is stored.

use model::checksum::Digest;
use model::v1::hub::{FileOrder, JobOrder};
use model::{Fault, Refusal};
use sched::priority::Priority;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use web::HttpUrl;

use crate::database::submissions::{NewFile, NewJob, QueueKey};
use crate::limits;
use crate::roles::Member;
use crate::states::{FileState, JobKind};
use crate::time;
use crate::topology::Topology;

/// Makes a job of an order, in the name of the member who submits it.
///
/// # Errors
/// The order cannot be carried out: one sentence says what is wrong, and with which file.
pub fn admit(order: &JobOrder, member: &Member, topology: &Topology, now: i64) -> Result<NewJob, Refusal> {
    let kind = kind(order)?;
    let deadline = deadline(order, kind, now)?;
    let community = community(order, member)?;
    let activity = order.activity.clone().unwrap_or_else(|| "default".to_owned());
    check_word("activity", &activity)?;
    if order.priority.is_some_and(|priority| !(1..=5).contains(&priority)) {
        return Err(refuse("priority is 1 to 5".to_owned()));
    }
    let priority = Priority::nearest(order.priority.map_or(3, i64::from));
    check_limit(deadline.is_some(), order.limit_bit_s)?;
    let metadata = metadata("the job", &order.metadata)?.unwrap_or_else(|| "{}".to_owned());
    let queue = |source: String, target: String| QueueKey {
        source,
        target,
        community: community.clone(),
        activity: activity.clone(),
        owner: member.owner.clone(),
        priority: i64::from(priority.number()),
        deadline: deadline.unwrap_or(0),
        limited_job: 0,
    };
    let mut files = Vec::with_capacity(order.files.len());
    for (at, file) in order.files.iter().enumerate() {
        add_rows(at, file, kind, topology, &queue, &mut files)?;
    }
    Ok(NewJob {
        id: order.id.unwrap_or_else(Uuid::now_v7).to_string(),
        digest: digest(order),
        owner: member.owner.clone(),
        community,
        activity,
        priority: i64::from(priority.number()),
        kind,
        submitted: now,
        deadline,
        options: serde_json::to_string(&order.options).map_err(|error| refuse(error.to_string()))?,
        metadata,
        expires: order
            .options
            .queue_for_s
            .and_then(|seconds| now.checked_add(i64::try_from(seconds).ok()?.checked_mul(1000)?)),
        fts: None,
        notify: notify(order)?,
        limit_bit_s: order.limit_bit_s.map_or(0, |limit| i64::try_from(limit).unwrap_or(i64::MAX)),
        files,
    })
}

/// Checks that a job has not both a deadline and a limit.
///
/// # Errors
/// The job has both.
pub fn check_limit(has_deadline: bool, limit_bit_s: Option<u64>) -> Result<(), Refusal> {
    if has_deadline && limit_bit_s.is_some_and(|limit| limit > 0) {
        let text = "a deadline is promised by rates that a limit may not permit: give one of the two";
        return Err(refuse(text.to_owned()));
    }
    Ok(())
}

fn refuse(reason: String) -> Refusal {
    Refusal::new(Fault::Config, reason)
}

/// The digest of an order without its id: orders with the same digest are the same.
fn digest(order: &JobOrder) -> String {
    let text = serde_json::to_vec(&JobOrder { id: None, ..order.clone() }).unwrap_or_default();
    model::hex::encode(&Sha256::digest(text))
}

/// The URL that is posted to when the job has ended.
fn notify(order: &JobOrder) -> Result<String, Refusal> {
    let Some(url) = &order.notify else { return Ok(String::new()) };
    let is_web = ["https://", "http://"].iter().any(|scheme| url.starts_with(scheme));
    match HttpUrl::parse(url) {
        Ok(_) if is_web && url.len() <= limits::URL_BYTES_MAX => Ok(url.clone()),
        _ => Err(refuse("notify is the URL that the job is posted to when it has ended: https://…".to_owned())),
    }
}

fn kind(order: &JobOrder) -> Result<JobKind, Refusal> {
    let count = order.files.len();
    if count == 0 {
        return Err(refuse("a job has at least one file".to_owned()));
    }
    if count > limits::JOB_FILES_MAX {
        let most = limits::JOB_FILES_MAX;
        return Err(refuse(format!("a job has at most {most} files, and this one has {count}: submit several jobs")));
    }
    if order.options.overwrite_hops && !order.options.multihop {
        return Err(refuse("overwrite_hops goes with multihop".to_owned()));
    }
    let several = order.files.iter().any(|file| file.sources.len() > 1);
    match (order.options.multihop, several) {
        (true, true) => Err(refuse("a hop has one source: multihop and several sources do not go together".to_owned())),
        (true, false) => check_hops(&order.files).map(|()| JobKind::MultiHop),
        (false, true) => Ok(JobKind::MultiSource),
        (false, false) => Ok(JobKind::Independent),
    }
}

fn check_hops(hops: &[FileOrder]) -> Result<(), Refusal> {
    for (at, pair) in hops.windows(2).enumerate() {
        if pair[1].sources.first() != Some(&pair[0].target) {
            let text = format!(
                "hop {} is not read where hop {at} is written: its source must be the target before it",
                at + 1
            );
            return Err(refuse(text));
        }
    }
    Ok(())
}

fn community(order: &JobOrder, member: &Member) -> Result<String, Refusal> {
    let own_community = if member.community.is_empty() { "default" } else { &member.community };
    let wanted = order.community.as_deref().unwrap_or(own_community);
    check_word("community", wanted)?;
    if member.may_submit_for(wanted) {
        return Ok(wanted.to_owned());
    }
    let reason = format!("{} submits for the community {own_community}, not for {wanted}", member.owner);
    Err(Refusal::new(Fault::Auth, reason))
}

fn check_word(what: &str, word: &str) -> Result<(), Refusal> {
    let is_plain = |c: char| c.is_alphanumeric() || " -_.:/+".contains(c);
    if !word.is_empty() && word.len() <= 256 && word.chars().all(is_plain) {
        return Ok(());
    }
    Err(refuse(format!("{what} {word:?} is not a valid name: letters, digits, spaces and -_.:/+, 256 bytes at most")))
}

fn metadata(whose: &str, metadata: &std::collections::BTreeMap<String, Value>) -> Result<Option<String>, Refusal> {
    if metadata.is_empty() {
        return Ok(None);
    }
    let text = serde_json::to_string(metadata).map_err(|error| refuse(error.to_string()))?;
    if text.len() > limits::METADATA_BYTES_MAX {
        return Err(refuse(format!(
            "the metadata of {whose} has {} bytes, and may have {} at most",
            text.len(),
            limits::METADATA_BYTES_MAX
        )));
    }
    Ok(Some(text))
}

fn deadline(order: &JobOrder, kind: JobKind, now: i64) -> Result<Option<i64>, Refusal> {
    let Some(text) = &order.deadline else { return Ok(None) };
    let at = time::parse(text)
        .ok_or_else(|| refuse(format!("deadline {text:?} is not a valid time: write 2026-12-24T18:00:00Z")))?;
    if at <= now {
        return Err(refuse(format!("the deadline {text} has passed")));
    }
    if kind == JobKind::MultiHop {
        return Err(refuse(
            "hops follow one another, and cannot be promised a deadline: submit each hop as a job of its own"
                .to_owned(),
        ));
    }
    if let Some(file) = order.files.iter().position(|file| file.bytes.unwrap_or(0) == 0) {
        return Err(refuse(format!("file {file}: a deadline is promised for a number of bytes: say how many it has")));
    }
    Ok(Some(at))
}

/// Adds the rows of a file, one for each source.
fn add_rows(
    at: usize,
    file: &FileOrder,
    kind: JobKind,
    topology: &Topology,
    queue: &dyn Fn(String, String) -> QueueKey,
    rows: &mut Vec<NewFile>,
) -> Result<(), Refusal> {
    let refuse_file = |reason: String| refuse(format!("file {at}: {reason}"));
    if file.sources.is_empty() || file.sources.len() > limits::SOURCES_MAX {
        let reason = format!("it has {} sources; it may have 1 to {}", file.sources.len(), limits::SOURCES_MAX);
        return Err(refuse_file(reason));
    }
    let endpoint = |url: &str| {
        let known = if url.len() <= limits::URL_BYTES_MAX { topology.endpoint(url) } else { None };
        known.ok_or_else(|| {
            let url = quoted(url);
            refuse_file(format!("{url} is no URL that the hub knows: lh://, https://, davs:// or s3://, and a host"))
        })
    };
    let target = endpoint(&file.target)?;
    if let Some(checksum) = &file.checksum {
        checksum.parse::<Digest>().map_err(|reason| refuse_file(format!("its checksum: {reason}")))?;
    }
    let bytes = i64::try_from(file.bytes.unwrap_or(0))
        .map_err(|_| refuse_file("its number of bytes is too large".to_owned()))?;
    if let Some(space) = topology.space_bytes(&target).filter(|space| bytes > *space) {
        let (bytes, space) = (model::Bytes(bytes as u64), model::Bytes(space as u64));
        return Err(refuse_file(format!("it has {bytes}, and {target} has {space} in all for data of the hub")));
    }
    let metadata = metadata(&format!("file {at}"), &file.metadata)?;
    for (rank, source) in file.sources.iter().enumerate() {
        let queue = queue(endpoint(source)?, target.clone());
        let is_on_tape = topology.described_endpoint(&queue.source).is_some_and(|it| it.tape);
        let refusing = topology.stops(&queue.source, &queue.target, &queue.community).find(|(_, it)| it.refuse);
        if let Some((what, stopped)) = refusing {
            let reason = format!("file {at}: the hub takes no new jobs for {what}: {}", stopped.reason);
            return Err(Refusal::new(Fault::Auth, reason));
        }
        let waits = match kind {
            JobKind::MultiHop => at > 0,
            _ => rank > 0,
        };
        rows.push(NewFile {
            at: at as i64,
            queue,
            source: source.clone(),
            target: file.target.clone(),
            checksum: file.checksum.clone(),
            metadata: metadata.clone(),
            bytes,
            state: if waits { FileState::Standby } else { FileState::Queued },
            tokens: None,
            is_on_tape,
        });
    }
    Ok(())
}

/// A URL as an error may quote it: without secrets, and shortened.
fn quoted(url: &str) -> String {
    const CHARS: usize = 200;
    let text = web::target::redacted(url);
    if text.chars().count() <= CHARS { text } else { text.chars().take(CHARS).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(json: &str) -> JobOrder {
        serde_json::from_str(json).unwrap()
    }

    fn admitted(json: &str) -> Result<NewJob, Refusal> {
        admit(&order(json), &Member::user("ann", "astro"), &Topology::default(), 1_000)
    }

    #[test]
    fn an_order_becomes_a_row_for_each_source() {
        let job = admitted(
            r#"{"files": [{"sources": ["lh://a/d/1"], "target": "lh://b/d/1", "bytes": 7, "checksum": "adler32:0a0b0c0d"},
                          {"sources": ["lh://a/d/2", "davs://c/d/2"], "target": "lh://b/d/2"}]}"#,
        )
        .unwrap();
        assert_eq!(
            (job.kind, job.community.as_str(), job.activity.as_str(), job.priority),
            (JobKind::MultiSource, "astro", "default", 3)
        );
        let rows: Vec<_> = job.files.iter().map(|file| (file.at, file.queue.source.as_str(), file.state)).collect();
        let wanted =
            [(0, "lh://a", FileState::Queued), (1, "lh://a", FileState::Queued), (1, "https://c", FileState::Standby)];
        assert_eq!(rows, wanted);
    }

    #[test]
    fn an_order_for_a_banned_endpoint_is_refused() {
        let toml = "[endpoint.b]\nurls = [\"lh://b\"]\nstopped = { reason = \"disk is gone\", refuse = true }";
        let topology = Topology::new(toml::from_str(toml).unwrap()).unwrap();
        let order = order(r#"{"files": [{"sources": ["lh://a/1"], "target": "lh://b/1"}]}"#);
        let refusal = admit(&order, &Member::user("ann", "astro"), &topology, 1).unwrap_err();
        assert_eq!(
            (refusal.fault, refusal.reason.as_str()),
            (Fault::Auth, "file 0: the hub takes no new jobs for endpoint b: disk is gone")
        );
    }

    #[test]
    fn hops_follow_one_another() {
        let hops = r#"{"options": {"multihop": true}, "files": [
            {"sources": ["lh://a/d/1"], "target": "lh://b/d/1"}, {"sources": ["lh://b/d/1"], "target": "lh://c/d/1"}]}"#;
        let job = admitted(hops).unwrap();
        assert_eq!(job.kind, JobKind::MultiHop);
        assert_eq!(
            job.files.iter().map(|file| file.state).collect::<Vec<_>>(),
            [FileState::Queued, FileState::Standby]
        );
        let broken = hops.replace("\"lh://b/d/1\"], \"target\"", "\"lh://x/d/1\"], \"target\"");
        assert!(admitted(&broken).unwrap_err().reason.contains("hop 1 is not read where hop 0 is written"));
    }

    #[test]
    fn the_same_order_has_the_same_digest_whatever_its_id() {
        let json =
            |id: &str| format!(r#"{{"id": "{id}", "files": [{{"sources": ["lh://a/1"], "target": "lh://b/1"}}]}}"#);
        let a = admitted(&json("0197f2a0-0000-7000-8000-000000000001")).unwrap();
        let b = admitted(&json("0197f2a0-0000-7000-8000-000000000002")).unwrap();
        assert_eq!(a.digest, b.digest);
        assert_ne!(a.id, b.id);
    }

    #[test]
    fn a_refusal_says_in_one_sentence_what_is_wrong() {
        let file = r#""sources": ["lh://a/1"], "target": "lh://b/1""#;
        for (json, reason) in [
            (r#"{"files": []}"#.to_owned(), "at least one file"),
            (r#"{"files": [{"sources": [], "target": "lh://b/1"}]}"#.to_owned(), "file 0: it has 0 sources"),
            (
                r#"{"files": [{"sources": ["gsiftp://a/1"], "target": "lh://b/1"}]}"#.to_owned(),
                "file 0: gsiftp://a/1 is no URL",
            ),
            (r#"{"files": [{"sources": ["https://u:pw@a/1"], "target": "lh://b/1"}]}"#.to_owned(), "is no URL"),
            (format!(r#"{{"files": [{{{file}, "checksum": "adler32"}}]}}"#), "a checksum is ALGORITHM:VALUE"),
            (format!(r#"{{"files": [{{{file}, "checksum": "crc7:00"}}]}}"#), "\"crc7\" is not a checksum"),
            (format!(r#"{{"files": [{{{file}}}], "priority": 9}}"#), "priority is 1 to 5"),
            (format!(r#"{{"files": [{{{file}}}], "options": {{"overwrite_hops": true}}}}"#), "goes with multihop"),
            (format!(r#"{{"files": [{{{file}}}], "community": "other"}}"#), "ann submits for the community astro"),
            (format!(r#"{{"files": [{{{file}}}], "activity": "a\nb"}}"#), "is not a valid name"),
            (format!(r#"{{"files": [{{{file}}}], "deadline": "tomorrow"}}"#), "is not a valid time"),
            (format!(r#"{{"files": [{{{file}}}], "deadline": "1970-01-01T00:00:01Z"}}"#), "has passed"),
            (format!(r#"{{"files": [{{{file}}}], "deadline": "2999-01-01T00:00:00Z"}}"#), "say how many it has"),
            (
                format!(
                    r#"{{"files": [{{{file}, "bytes": 9}}], "deadline": "2999-01-01T00:00:00Z", "limit_bit_s": 8}}"#
                ),
                "give one of the two",
            ),
            (
                format!(r#"{{"files": [{{{file}}}], "metadata": {{"x": "{}"}}}}"#, "y".repeat(5000)),
                "may have 4096 at most",
            ),
        ] {
            let refusal = admitted(&json).unwrap_err();
            assert!(refusal.reason.contains(reason), "{json}: {}", refusal.reason);
            assert!(!refusal.reason.contains("pw") && !refusal.reason.contains('\n'), "{}", refusal.reason);
        }
    }
}
