//! `/metrics`: the node's metrics, for Prometheus. They name no user and no path, and of exports only the names. So every principal
//! that may use the node may read them, and the hosts that the operator names as well, without a key and in clear text.

use auth::Access;
use serve::{Exchange, Length};
use web::target::Target;
use web::{Headers, Method, Response};

use super::HttpService;
use super::refused::{Outcome, Refused, RequestOutcome, refuse};
use super::request_context::RequestContext;
use crate::meters::MEDIA_TYPE;

/// The path of the metrics.
pub(super) const PATH: &[u8] = b"metrics";

/// Whether a request is for the metrics.
pub(super) fn is_addressed(target: &Target) -> bool {
    target.path.as_bytes() == PATH
}

/// Answers an authenticated request: the principal must have some right on the node.
pub(super) fn answer_authenticated(context: &mut RequestContext<'_>) -> Outcome {
    let access = context.access().clone();
    let has_a_right = match &access {
        Access::Anonymous(_) | Access::Granted(_) => true,
        Access::Ticket(ticket) => !ticket.permits.is_empty() || !ticket.everywhere.is_empty(),
    };
    if !has_a_right {
        return Err(context.deny(refuse(403, "the metrics of this node are for clients that may use it")));
    }
    answer(context.service, context.exchange, Some(&access))
}

/// Answers with the metrics, of the exports that a principal may see, or of all.
pub(super) fn answer(service: &HttpService, exchange: &mut dyn Exchange, access: Option<&Access>) -> Outcome {
    let text = service
        .services
        .metrics(access)
        .text()
        .map_err(|error| refuse(500, format!("the metrics cannot be written: {error}")))?;
    require_get(exchange)?;
    send_text(exchange, MEDIA_TYPE, text.as_bytes())
}

/// Checks that the method is GET or HEAD.
///
/// # Errors
/// The method is another one.
pub(super) fn require_get(exchange: &dyn Exchange) -> Outcome<()> {
    match exchange.request().method {
        Method::Get | Method::Head => Ok(()),
        _ => Err(Refused::new(405, "only GET and HEAD are allowed here").with("Allow", "GET, HEAD").into()),
    }
}

/// Sends a text as the whole answer.
pub(super) fn send_text(exchange: &mut dyn Exchange, kind: &str, text: &[u8]) -> Outcome {
    let response = Response::new(200).with("Content-Type", kind).with("Cache-Control", "no-store");
    exchange.begin(response, Length::Known(text.len() as u64))?;
    let wanted = exchange.request().method == Method::Get;
    if wanted {
        exchange.write(text)?;
    }
    exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status: 200, bytes: if wanted { text.len() as u64 } else { 0 } })
}
