//! Stores new jobs: all jobs of one transaction are inserted by the same few statements.

use std::collections::HashMap;

use serde_json::json;
use sqlx::{AnyConnection, Row};

use super::Result;
use super::events::{NewEvent, append_from};
use super::fts::insert_tokens;
use super::numbers::take_all;
pub use super::queue_keys::QueueKey;
use super::queue_keys::queue_id;
use super::queue_moves::JobFiles;
use super::rate_limits::set_limit;
use crate::states::{FileState, JobKind};
use crate::tokens::FileTokens;
use database::rows::{insert, select_by_text};

/// A job that has been checked and can be stored.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Its id, a UUID.
    pub id: String,
    /// The digest of its order: the same id with another digest is refused.
    pub digest: String,
    /// The member who submits it.
    pub owner: String,
    /// The community.
    pub community: String,
    /// The activity.
    pub activity: String,
    /// The priority, 1 to 5.
    pub priority: i64,
    /// How its files belong together.
    pub kind: JobKind,
    /// When it was submitted, milliseconds since 1970.
    pub submitted: i64,
    /// The deadline by which its files must have arrived, milliseconds since 1970.
    pub deadline: Option<i64>,
    /// How its files are transferred, JSON.
    pub options: String,
    /// Metadata of the client, returned with the job, JSON.
    pub metadata: String,
    /// After this time no further file of it begins, milliseconds since 1970.
    pub expires: Option<i64>,
    /// The facts that only the FTS API uses, JSON.
    pub fts: Option<String>,
    /// The URL that is posted to when the job has ended; empty for none.
    pub notify: String,
    /// Its rate limit, bit/s; 0 for none.
    pub limit_bit_s: i64,
    /// Its files; not empty.
    pub files: Vec<NewFile>,
}

impl NewJob {
    /// The number of rows that are queued at first, and their bytes: one row of each file.
    pub(super) fn queued(&self) -> (i64, i64) {
        let queued = self.files.iter().filter(|file| file.state == FileState::Queued);
        queued.fold((0, 0), |(files, bytes), file| (files + 1, bytes.saturating_add(file.bytes)))
    }
}

/// One source of a file of a [`NewJob`]; it becomes a row.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Its position in the job; all sources of one file have the same.
    pub at: i64,
    /// The queue that it waits in.
    pub queue: QueueKey,
    /// The URL that is read.
    pub source: String,
    /// The URL that is written.
    pub target: String,
    /// The checksum, `ALGORITHM:VALUE`, as the client gives it.
    pub checksum: Option<String>,
    /// Metadata of the client, returned with the job, JSON.
    pub metadata: Option<String>,
    /// The size in bytes; 0 if it is unknown.
    pub bytes: i64,
    /// Queued, or on standby until another source has failed or the hop before it is done.
    pub state: FileState,
    /// Tokens for its storages.
    pub tokens: Option<FileTokens>,
    /// Whether its source is on tape: it is staged first.
    pub is_on_tape: bool,
}

/// The result of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitResult {
    /// The job is stored.
    New,
    /// The same job was stored before.
    Known,
    /// Another job has the same id.
    Conflict,
}

/// The ids of queues that the writer has found so far.
pub(super) type QueueIds = HashMap<QueueKey, i64>;

/// Stores jobs.
pub(super) async fn submit(
    connection: &mut AnyConnection,
    jobs: Vec<NewJob>,
    queue_ids: &mut QueueIds,
) -> Result<Vec<SubmitResult>> {
    let mut known = digests(connection, &jobs).await?;
    let mut results = Vec::with_capacity(jobs.len());
    let mut new = Vec::with_capacity(jobs.len());
    for job in jobs {
        let before = known.get(&job.id);
        results.push(match before {
            Some(digest) if *digest == job.digest => SubmitResult::Known,
            Some(_) => SubmitResult::Conflict,
            None => SubmitResult::New,
        });
        if before.is_none() {
            known.insert(job.id.clone(), job.digest.clone());
            new.push(job);
        }
    }
    if new.is_empty() {
        return Ok(results);
    }
    let files: usize = new.iter().map(|job| job.files.len()).sum();
    let wanted = [("jobs", new.len()), ("files", files), ("events", new.len())];
    let [first_job, first_file, first_event] = take_all(connection, wanted).await?;
    ensure_queues(connection, &new, queue_ids).await?;
    insert_jobs(connection, &new, first_job, first_file).await?;
    let files = numbered(&new, first_job, first_file, queue_ids);
    insert_files(connection, &files).await?;
    let tokens: Vec<_> = files.iter().filter_map(|file| Some((file.id, file.file.tokens.as_ref()?))).collect();
    insert_tokens(connection, &tokens).await?;
    insert_stages(connection, &files).await?;
    count(connection, &files).await?;
    limit_new(connection, &new, first_job, first_file).await?;
    append_from(connection, first_event, &new.iter().map(submitted_event).collect::<Vec<_>>()).await?;
    Ok(results)
}

/// The digests of jobs that exist already, by id.
async fn digests(connection: &mut AnyConnection, jobs: &[NewJob]) -> Result<HashMap<String, String>> {
    let mut known = HashMap::new();
    for row in
        select_by_text(connection, "SELECT id, digest FROM jobs WHERE id IN", jobs, |job| job.id.as_str()).await?
    {
        known.insert(row.try_get(0)?, row.try_get(1)?);
    }
    Ok(known)
}

/// Finds or makes the queues of all files.
async fn ensure_queues(connection: &mut AnyConnection, jobs: &[NewJob], queue_ids: &mut QueueIds) -> Result<()> {
    let mut last: Option<&QueueKey> = None;
    for key in jobs.iter().flat_map(|job| &job.files).map(|file| &file.queue) {
        if last == Some(key) || queue_ids.contains_key(key) {
            last = Some(key);
            continue;
        }
        let id = queue_id(connection, key).await?;
        queue_ids.insert(key.clone(), id);
    }
    Ok(())
}

async fn insert_jobs(connection: &mut AnyConnection, jobs: &[NewJob], first: i64, first_file: i64) -> Result<()> {
    const INTO: &str = "jobs (number, id, digest, owner, community, activity, priority, kind, first_file, file_rows, files, \
                        queued, bytes, submitted, deadline, options, metadata, fts, notify)";
    let mut file = first_file;
    let mut rows = Vec::with_capacity(jobs.len());
    for (number, job) in (first..).zip(jobs) {
        rows.push((number, file, job));
        file += job.files.len() as i64;
    }
    Ok(insert(connection, INTO, 19, &rows, |query, (number, first_file, job)| {
        let (files, bytes) = job.queued();
        let query = query.bind(*number).bind(job.id.as_str()).bind(job.digest.as_str()).bind(job.owner.as_str());
        let query = query.bind(job.community.as_str()).bind(job.activity.as_str()).bind(job.priority);
        let query = query.bind(job.kind.code()).bind(*first_file).bind(job.files.len() as i64).bind(files);
        let query = query.bind(files).bind(bytes).bind(job.submitted).bind(job.deadline);
        let query = query.bind(job.options.as_str()).bind(job.metadata.as_str()).bind(job.fts.as_deref());
        query.bind(job.notify.as_str())
    })
    .await?)
}

/// A file with its number, and the numbers of its job and queue.
struct NumberedFile<'a> {
    id: i64,
    job: i64,
    queue: i64,
    expires: Option<i64>,
    file: &'a NewFile,
}

/// The files of all jobs in one list.
fn numbered<'a>(jobs: &'a [NewJob], first_job: i64, first_file: i64, queue_ids: &QueueIds) -> Vec<NumberedFile<'a>> {
    let files = (first_job..).zip(jobs).flat_map(|(number, job)| job.files.iter().map(move |file| (number, job, file)));
    let number = |(id, (job, new_job, file)): (i64, (i64, &'a NewJob, &'a NewFile))| {
        let queue = queue_ids.get(&file.queue).copied().unwrap_or_default();
        NumberedFile { id, job, queue, expires: new_job.expires, file }
    };
    (first_file..).zip(files).map(number).collect()
}

async fn insert_files(connection: &mut AnyConnection, files: &[NumberedFile<'_>]) -> Result<()> {
    insert(connection, "files (id, job, at, queue, state, bytes, expires)", 7, files, |query, numbered| {
        let NumberedFile { id, job, queue, expires, file } = numbered;
        let query = query.bind(*id).bind(*job).bind(file.at).bind(*queue).bind(file.state.code());
        query.bind(file.bytes).bind(*expires)
    })
    .await?;
    Ok(insert(connection, "file_facts (id, source, target, checksum, metadata)", 5, files, |query, numbered| {
        let NumberedFile { id, file, .. } = numbered;
        let query = query.bind(*id).bind(file.source.as_str()).bind(file.target.as_str());
        query.bind(file.checksum.as_deref()).bind(file.metadata.as_deref())
    })
    .await?)
}

/// Inserts the files that must be staged from tape.
async fn insert_stages(connection: &mut AnyConnection, files: &[NumberedFile<'_>]) -> Result<()> {
    let on_tape: Vec<&NumberedFile<'_>> = files.iter().filter(|numbered| numbered.file.is_on_tape).collect();
    Ok(insert(connection, "stages (file, queue, endpoint)", 3, &on_tape, |query, numbered| {
        query.bind(numbered.id).bind(numbered.queue).bind(numbered.file.queue.source.as_str())
    })
    .await?)
}

/// Applies the rate limits of new jobs.
async fn limit_new(connection: &mut AnyConnection, jobs: &[NewJob], first_job: i64, first_file: i64) -> Result<()> {
    let mut first = first_file;
    for (number, new) in (first_job..).zip(jobs) {
        let end = first + new.files.len() as i64;
        if new.limit_bit_s > 0 {
            set_limit(connection, &JobFiles { job: number, first, end }, new.limit_bit_s).await?;
        }
        first = end;
    }
    Ok(())
}

/// Adds the queued files to the counters of their queues.
async fn count(connection: &mut AnyConnection, files: &[NumberedFile<'_>]) -> Result<()> {
    let mut added: HashMap<i64, (i64, i64)> = HashMap::new();
    for NumberedFile { queue, file, .. } in files.iter().filter(|numbered| numbered.file.state == FileState::Queued) {
        let (files, bytes) = added.entry(*queue).or_default();
        *files += 1;
        *bytes += file.bytes;
    }
    for (queue, (files, bytes)) in added {
        let sql = "UPDATE queues SET queued = queued + $1, queued_bytes = queued_bytes + $2 WHERE id = $3";
        sqlx::query(sql).bind(files).bind(bytes).bind(queue).execute(&mut *connection).await?;
    }
    Ok(())
}

fn submitted_event(job: &NewJob) -> NewEvent {
    NewEvent {
        at: job.submitted,
        job: job.id.clone(),
        owner: job.owner.clone(),
        kind: "submitted",
        body: json!({"files": job.files.len(), "community": job.community, "activity": job.activity}).to_string(),
    }
}
