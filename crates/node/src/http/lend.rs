//! A key for one copy, for another node of ours: the active end of a third-party copy shows the credentials that it was
//! given for us, and gets a key by which the native engine moves that one file.

use auth::Action;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::id::Uuid;
use serde::{Deserialize, Serialize};
use serve::Length;
use web::{Headers, Response};

use super::refused::{Done, Outcome, refuse};
use super::request_context::RequestContext;
use crate::http::little::read_little;

/// The type of the question and of the answer.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.longhaul.session+json";
/// Bytes of a question.
const QUESTION_BYTES_MAX: usize = 4096;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    /// The form's version.
    pub v: u32,
    /// To write instead of to read.
    pub write: bool,
    /// The job that the key is for.
    pub job: Uuid,
}

/// The answer.
#[derive(Serialize, Deserialize)]
pub(crate) struct Lent {
    /// The form's version.
    pub v: u32,
    /// The key, a secret.
    pub key: String,
    /// The export.
    pub export: String,
    /// The path below it, base64: a name need not be text.
    pub path: String,
}

/// Answers a POST of that type.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return Err(refuse(404, "a key is for one file")) };
    // Before the question is read: whoever may neither read nor write there is not waited for.
    if let Err(trouble) = context.reach(Action::Read, &export, &path) {
        context.reach(Action::Create, &export, &path).map_err(|_| trouble)?;
    }
    let body = read_little(context.exchange, QUESTION_BYTES_MAX, "a question for a key")?;
    let question: Question =
        serde_json::from_slice(&body).map_err(|e| refuse(400, format!("not a question for a key: {e}")))?;
    if question.v != 1 {
        return Err(refuse(400, format!("a question for a key of version {} is not known here, 1 is", question.v)));
    }
    let action = if question.write { Action::Create } else { Action::Read };
    let reach = context.reach(action, &export, &path)?;
    if reach.store.is_dir(&reach.path) {
        return Err(refuse(409, "a key is for one file, and this is a directory"));
    }
    let replaces = question.write && context.reach(Action::Overwrite, &export, &path).is_ok();
    let job = question.write.then_some(*question.job.as_bytes());
    let key = context.web.rules.lend(context.access(), &export, &path, job, replaces)?;
    let lent = Lent { v: 1, key: key.expose_text(), export, path: STANDARD.encode(path.as_bytes()) };
    let text = serde_json::to_vec(&lent).map_err(|e| refuse(500, e.to_string()))?;
    let response = Response::new(200).with("Content-Type", MEDIA_TYPE).with("Cache-Control", "no-store");
    context.exchange.begin(response, Length::Known(text.len() as u64))?;
    context.exchange.write(&text)?;
    context.exchange.end(&Headers::new())?;
    Ok(Done { status: 200, bytes: 0 })
}
