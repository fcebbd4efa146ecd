//! COPY: within this node, or as a third-party copy, in which this node gets the file from another server or puts it there.
//!
//! Everything that can be refused is refused by a status before anything is created or sent. Then 202 and the markers are sent; the
//! last line reports the outcome, because the status has been sent before.

mod digests;
mod native;
mod pull;
mod push;
mod ranges;
mod remote;
mod store_failure;
mod watch;

use model::Fault;
use serve::Length;
use web::copy::{self, CopyRequest, Direction};
use web::{Headers, Response};

use super::refused::{Outcome, RequestOutcome, refuse};
use super::request_context::RequestContext;
use super::tree;
use crate::copies::progress::{CopyProgress, Failure};
use crate::meters::JobOutcome;

/// Answers COPY.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let headers = &context.request().headers;
    let destination = headers.get("destination").map(str::to_owned);
    let third_party = headers.get("source").is_some()
        || destination.as_deref().is_none_or(|to| !copy::is_local(to, context.authority().unwrap_or_default()));
    if !third_party {
        return tree::copy::answer(context);
    }
    let order = CopyRequest::from_headers(headers.iter()).map_err(|bad| refuse(bad.status, bad.reason))?;
    let other = order.direction.remote().redacted();
    if let Err(refusal) = context.service.access_control.may_have_connect(context.access(), &other) {
        return Err(context.service.services.authenticator.challenge_anonymous(&refusal.reason).into());
    }
    tracing::debug!(client = order.client_info.as_deref().unwrap_or_default(), "third-party copy");
    match &order.direction {
        Direction::Pull { source } => pull::answer(context, &order, &source.clone()),
        Direction::Push { destination } => push::answer(context, &order, &destination.clone()),
    }
}

/// Answers with 202 and begins the stream of markers.
fn accept(context: &mut RequestContext<'_>) -> Outcome<()> {
    let response = Response::new(202).with("Content-Type", "text/perf-marker-stream").with("Cache-Control", "no-store");
    context.exchange.begin(response, Length::Open)?;
    Ok(())
}

/// Reports a failure before a byte has moved: by a status, or by the last line if 202 has been sent already.
fn fail_early(context: &mut RequestContext<'_>, progress: &CopyProgress, accepted: bool, failure: Failure) -> Outcome {
    if accepted { end_copy(context, progress, Err(failure)) } else { Err(remote::as_status(failure)) }
}

/// Sends the last line and ends the answer.
fn close(context: &mut RequestContext<'_>, last: &copy::outcome::CopyOutcome) -> std::io::Result<()> {
    context.exchange.write(last.line().as_bytes())?;
    context.exchange.end(&Headers::new())
}

/// Ends a copy: sends its last line. Returns the outcome of the copy for the logs, not the status 202.
fn end_copy(context: &mut RequestContext<'_>, progress: &CopyProgress, result: Result<u64, Failure>) -> Outcome {
    match result {
        Ok(bytes) => {
            progress.end(JobOutcome::Done);
            context.exchange.write(watch::marker(progress).as_bytes())?;
            close(context, &copy::outcome::CopyOutcome::Success)?;
            Ok(RequestOutcome { status: 202, bytes })
        }
        Err(failure) => {
            if failure.fault == Fault::Integrity {
                context.service.services.meters.damaged();
            }
            progress.end(match failure.fault {
                Fault::Auth => JobOutcome::Refused,
                Fault::Interrupted => JobOutcome::Interrupted,
                _ => JobOutcome::Failed,
            });
            let last = failure.last();
            let sent = close(context, &last);
            let reason = failure.text;
            sent.map_err(|_| refuse(499, reason.clone()))?;
            Err(refuse(failure.status, reason))
        }
    }
}
