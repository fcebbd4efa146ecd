//! The FTS API: jobs and files.

use model::v1::hub::{File, JobChange};
use serde_json::{Map, Value, json};
use web::Refused;

use super::delegation;
use super::forms::{self, file as file_form, job as job_form, with_fields};
use super::submission::Submission;
use super::{FtsRequest, FtsResult, json_answer};
use crate::database::jobs::{JobFilter, StoredJob};
use crate::database::submissions::{NewJob, SubmitResult};
use crate::limits;
use crate::state::unavailable;
use crate::time;
use crate::tokens::FileTokens;

/// The most jobs in a list.
const LIST_MAX: i64 = 500;

/// `POST /jobs`.
pub(super) async fn submit(request: FtsRequest) -> FtsResult {
    let submission: Submission = web::json::read(&request.body, "the submission")?;
    if submission.is_deletion() {
        return Err(Refused::new(405, "deletions are not done here: delete at the storage"));
    }
    let mut submitted = submission.order(&request.member, request.method)?;
    submitted.facts.delegation = delegation::for_job(&request).await?.unwrap_or_default();
    let hub = &request.hub;
    let facts = serde_json::to_string(&submitted.facts).ok();
    let tokens = submitted.tokens;
    let complete = |job: &mut NewJob| {
        job.fts = facts;
        set_tokens(job, tokens);
    };
    let (job, result) = hub.submit(&submitted.order, &request.member, complete).await?;
    // Only an id that the client has derived from a sid can exist already.
    if result != SubmitResult::New {
        let id = job.id;
        return Err(Refused::new(409, format!("The job {id} already exists: the sid was used before")));
    }
    json_answer(200, &json!({"job_id": job.id}))
}

/// Sets the tokens of each row of a job: a row is one source of a file, in the order of the submission.
fn set_tokens(job: &mut NewJob, tokens: Vec<Vec<FileTokens>>) {
    let mut left: Vec<_> = tokens.into_iter().map(Vec::into_iter).collect();
    for row in &mut job.files {
        let file_tokens = usize::try_from(row.at).ok().and_then(|at| left.get_mut(at));
        row.tokens = file_tokens.and_then(Iterator::next).filter(|tokens| !tokens.is_empty());
    }
}

/// The job with an id, if the client may see it.
pub(super) async fn find(request: &FtsRequest, id: &str) -> Result<Option<StoredJob>, Refused> {
    let job = request.hub.database.job(id).await.map_err(unavailable)?;
    Ok(job.filter(|job| request.member.may_change(&job.job.owner, &job.job.community)))
}

/// The job with an id; an unknown id is refused (404).
pub(super) async fn require_job(request: &FtsRequest, id: &str) -> Result<StoredJob, Refused> {
    find(request, id).await?.ok_or_else(|| Refused::new(404, format!("No job with the id \"{id}\" has been found")))
}

async fn files_of(request: &FtsRequest, job: &StoredJob) -> Result<Vec<File>, Refused> {
    let limit = limits::JOB_FILES_MAX as i64 * limits::SOURCES_MAX as i64;
    request.hub.database.files(job, 0, limit).await.map_err(unavailable).map_err(Refused::from)
}

/// The entry for an unknown id in a list of jobs.
fn unknown(id: &str) -> Value {
    json!({"job_id": id, "http_status": "404 Not Found", "http_message": format!("No job with the id \"{id}\" has been found")})
}

/// The answers for the jobs that a path names.
#[derive(Default)]
pub(super) struct Answers {
    all: Vec<Value>,
    has_unknown: bool,
}

impl Answers {
    /// The job with an id; an unknown id gets its entry in the answers.
    pub async fn job(&mut self, request: &FtsRequest, id: &str) -> Result<Option<StoredJob>, Refused> {
        let job = find(request, id).await?;
        if job.is_none() {
            self.has_unknown = true;
            self.all.push(unknown(id));
        }
        Ok(job)
    }

    /// Adds the answer for a job that is known.
    pub fn add(&mut self, form: Map<String, Value>) {
        self.all.push(Value::Object(form));
    }

    /// The answer: an object for one id, a list for several ids; its status is 207 if one of several is unknown.
    pub fn respond(mut self, ids: &str) -> FtsResult {
        if ids.contains(',') {
            return json_answer(if self.has_unknown { 207 } else { 200 }, &self.all);
        }
        json_answer(if self.has_unknown { 404 } else { 200 }, &self.all.pop())
    }
}

/// `GET /jobs/ID[,ID…][?files=FIELD,…]`.
pub(super) async fn show(request: FtsRequest, ids: &str) -> FtsResult {
    let fields = request.list("files");
    let mut answers = Answers::default();
    for id in ids.split(',') {
        let Some(job) = answers.job(&request, id).await? else { continue };
        let mut form = job_form(&job);
        if !fields.is_empty() {
            let files = files_of(&request, &job).await?;
            let files: Vec<Value> = files.iter().map(|file| with_fields(file_form(&job, file), &fields)).collect();
            form.insert("files".to_owned(), Value::Array(files));
        }
        answers.add(form);
    }
    answers.respond(ids)
}

/// `GET /jobs/ID/files`.
pub(super) async fn files(request: FtsRequest, id: &str) -> FtsResult {
    let job = require_job(&request, id).await?;
    let files = files_of(&request, &job).await?;
    json_answer(200, &files.iter().map(|file| Value::Object(file_form(&job, file))).collect::<Vec<_>>())
}

/// `GET /jobs/ID/dm`: an empty list, because the hub accepts no deletions.
pub(super) async fn no_deletions(request: FtsRequest, id: &str) -> FtsResult {
    require_job(&request, id).await?;
    json_answer(200, &json!([]))
}

/// `GET /jobs/ID/FIELD`.
pub(super) async fn field(request: FtsRequest, id: &str, field: &str) -> FtsResult {
    let form = job_form(&require_job(&request, id).await?);
    match form.get(field) {
        Some(value) => json_answer(200, value),
        None => Err(Refused::new(404, format!("No such field {field}"))),
    }
}

/// `GET /jobs/ID/files/FILE/retries`.
pub(super) async fn retries(request: FtsRequest, id: &str, file: &str) -> FtsResult {
    let job = require_job(&request, id).await?;
    let number: i64 = file.parse().map_err(|_| Refused::new(404, format!("No such file {file}")))?;
    if !(job.first_file..job.first_file + job.file_rows).contains(&number) {
        return Err(Refused::new(404, format!("No such file {file}")));
    }
    let attempts = request.hub.database.attempts(number).await.map_err(unavailable)?;
    let form = |attempt: &crate::database::jobs::Attempt| json!({"attempt": attempt.attempt, "datetime": time::show(attempt.ended), "reason": attempt.reason, "transfer_host": null, "log_file": null});
    json_answer(200, &attempts.iter().map(form).collect::<Vec<_>>())
}

/// `POST /jobs/ID[,ID…]` with `{"params": {"priority": N}}`.
pub(super) async fn modify(request: FtsRequest, ids: &str) -> FtsResult {
    let body: Value = web::json::read(&request.body, "the modification")?;
    let priority = body.pointer("/params/priority").and_then(Value::as_i64);
    let priority = priority.ok_or_else(|| Refused::new(400, "only params.priority can be modified"))?;
    let mut answers = Answers::default();
    for id in ids.split(',') {
        let Some(job) = answers.job(&request, id).await? else { continue };
        let change = JobChange { priority: Some(priority.clamp(1, 5) as u8), ..JobChange::default() };
        request.hub.change_job(job, change, request.member.owner.clone()).await?;
        answers.add(job_form(&require_job(&request, id).await?));
    }
    answers.respond(ids)
}

/// `GET /jobs`: the jobs that have not ended, or those in the states that the query names.
pub(super) async fn list(request: FtsRequest) -> FtsResult {
    let is_unended = request.list("state_in").is_empty();
    json_answer(200, &matching_jobs(&request, is_unended, |_| true).await?)
}

/// The jobs that match the query and that the client may see.
pub(super) async fn matching_jobs(
    request: &FtsRequest,
    unended: bool,
    is_listed: fn(&StoredJob) -> bool,
) -> Result<Vec<Value>, Refused> {
    let limit =
        request.parameter("limit").and_then(|text| text.parse::<i64>().ok()).unwrap_or(LIST_MAX).clamp(1, LIST_MAX);
    let member = &request.member;
    let is_user = !member.may_change("", &member.community);
    let filter = JobFilter {
        owner: if is_user { member.owner.clone() } else { String::new() },
        community: request.parameter("vo_name").unwrap_or_else(|| member.community.clone()),
        unended,
        before: None,
        limit,
    };
    let jobs = request.hub.database.jobs(&filter).await.map_err(unavailable)?;
    let states = request.list("state_in");
    let conditions = ["source_se", "dest_se", "user_dn"].map(|name| (name, request.parameter(name)));
    let is_wanted = |form: &Map<String, Value>| {
        let holds = |(name, wanted): &(&str, Option<String>)| {
            wanted.as_ref().is_none_or(|wanted| form.get(*name) == Some(&json!(wanted)))
        };
        let state = form.get("job_state").and_then(Value::as_str);
        let in_state = states.is_empty() || state.is_some_and(|it| states.iter().any(|state| state == it));
        in_state && conditions.iter().all(holds)
    };
    let fields = request.list("fields");
    let forms = jobs.iter().filter(|job| is_listed(job)).map(job_form).filter(is_wanted);
    Ok(forms.map(|form| with_fields(form, &fields)).collect())
}

/// `GET /files`: files of jobs that have not ended, for monitoring.
pub(super) async fn all_files(request: FtsRequest) -> FtsResult {
    let member = &request.member;
    let is_user = !member.may_change("", &member.community);
    let filter = JobFilter {
        owner: if is_user { member.owner.clone() } else { String::new() },
        community: request.parameter("vo_name").unwrap_or_else(|| member.community.clone()),
        unended: true,
        before: None,
        limit: LIST_MAX,
    };
    let states = request.list("state_in");
    let limit = request.parameter("limit").and_then(|text| text.parse::<usize>().ok()).unwrap_or(1000).min(1000);
    let mut found = Vec::new();
    for job in request.hub.database.jobs(&filter).await.map_err(unavailable)? {
        if found.len() >= limit {
            break;
        }
        let files = request.hub.database.files(&job, 0, limit as i64).await.map_err(unavailable)?;
        let is_wanted = |file: &&File| states.is_empty() || states.iter().any(|state| state == forms::file_state(file));
        found.extend(files.iter().filter(is_wanted).map(|file| Value::Object(file_form(&job, file))));
    }
    found.truncate(limit);
    json_answer(200, &found)
}

/// The JSON schema of the fields of a submission that the hub reads.
pub(super) fn schema() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "title": "Transfer submission",
        "type": "object",
        "properties": {
            "files": {"type": "array", "items": {
                "type": "object",
                "required": ["sources", "destinations"],
                "properties": {
                    "sources": {"type": "array", "items": {"type": "string"}},
                    "destinations": {"type": "array", "items": {"type": "string"}},
                    "filesize": {"type": ["number", "null"]},
                    "checksum": {"type": ["string", "null"]},
                    "activity": {"type": ["string", "null"]},
                    "metadata": {"type": ["object", "string", "null"]},
                },
            }},
            "params": {"type": ["object", "null"]},
        },
    })
}
