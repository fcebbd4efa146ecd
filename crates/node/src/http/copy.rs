//! COPY: within this node, or from or to a third party, which this node then fetches from or puts to itself.
//!
//! The order matters: what can be refused is refused by status before anything is made or said; then 202 and markers, and
//! the last line says how it went, because the status has been sent long before.

mod gauge;
mod native;
mod pull;
mod push;
mod ranges;
mod remote;
mod watch;

use model::Fault;
use serve::Length;
use web::copy::{self, Direction, Order};
use web::{Headers, Response};

use super::refused::{Done, Outcome, refuse};
use super::request_context::RequestContext;
use super::tree;
use crate::meters::Ended;

use gauge::{Failure, Gauge};

/// Answers COPY.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let headers = &context.request().headers;
    let destination = headers.get("destination").map(str::to_owned);
    let third_party = headers.get("source").is_some()
        || destination.as_deref().is_none_or(|to| !copy::is_local(to, context.called().unwrap_or_default()));
    if !third_party {
        return tree::copy::answer(context);
    }
    let order = Order::from_headers(headers.iter()).map_err(|bad| refuse(bad.status, bad.reason))?;
    let other = order.direction.remote().redacted();
    if let Err(refusal) = context.web.rules.may_send_out(context.access(), &other) {
        return Err(context.web.authenticator.challenge_anonymous(&refusal.reason).into());
    }
    tracing::debug!(client = order.client_info.as_deref().unwrap_or_default(), "third-party copy");
    match &order.direction {
        Direction::Pull { source } => pull::answer(context, &order, &source.clone()),
        Direction::Push { destination } => push::answer(context, &order, &destination.clone()),
    }
}

/// 202, and the stream of markers begins.
fn accept(context: &mut RequestContext<'_>) -> Outcome<()> {
    let response = Response::new(202).with("Content-Type", "text/perf-marker-stream").with("Cache-Control", "no-store");
    context.exchange.begin(response, Length::Open)?;
    Ok(())
}

/// A failure before a byte has moved: a status, or the last line where 202 has been said already.
fn early(context: &mut RequestContext<'_>, gauge: &Gauge, accepted: bool, failure: Failure) -> Outcome {
    if accepted { done(context, gauge, Err(failure)) } else { Err(remote::before(failure)) }
}

/// The last line.
fn close(context: &mut RequestContext<'_>, last: &copy::outcome::Last) -> std::io::Result<()> {
    context.exchange.write(last.line().as_bytes())?;
    context.exchange.end(&Headers::new())
}

/// How a copy is written down: by what its last line says, not by the status of old.
fn done(context: &mut RequestContext<'_>, gauge: &Gauge, result: Result<u64, Failure>) -> Outcome {
    match result {
        Ok(bytes) => {
            gauge.ends(Ended::Done);
            context.exchange.write(watch::marker(gauge).as_bytes())?;
            close(context, &copy::outcome::Last::Success)?;
            Ok(Done { status: 202, bytes })
        }
        Err(failure) => {
            if failure.fault == Fault::Integrity {
                context.web.services.meters.damaged();
            }
            gauge.ends(match failure.fault {
                Fault::Auth => Ended::Refused,
                Fault::Interrupted => Ended::Interrupted,
                _ => Ended::Failed,
            });
            let last = failure.last();
            let heard = close(context, &last);
            let reason = failure.text;
            heard.map_err(|_| refuse(499, reason.clone()))?;
            Err(refuse(failure.status, reason))
        }
    }
}
