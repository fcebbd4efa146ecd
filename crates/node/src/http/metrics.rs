//! `/metrics`: the node's numbers, for Prometheus. They tell of no user and no path, and of exports only the names; so whoever may
//! use the node may read them, and, where its operator says so, a host that watches it, without a key and in clear.

use auth::Access;
use serve::{Exchange, Length};
use web::target::Target;
use web::{Headers, Method, Response};

use super::Web;
use super::refused::{Done, Outcome, Refused, refuse};
use super::request_context::RequestContext;
use crate::meters::MEDIA_TYPE;

/// Where they are.
pub(super) const PATH: &[u8] = b"metrics";

/// Whether somebody asks for them.
pub(super) fn is_meant(target: &Target) -> bool {
    target.path.as_bytes() == PATH
}

/// Answers whoever shows who they are, or is let in without.
pub(super) fn to_visitor(context: &mut RequestContext<'_>) -> Outcome {
    let access = context.access().clone();
    let may_something = match &access {
        Access::Anonymous(_) | Access::Granted(_) => true,
        Access::Visitor(ticket) => !ticket.permits.is_empty() || !ticket.everywhere.is_empty(),
    };
    if !may_something {
        return Err(context.deny(refuse(403, "the numbers of this node are for its guests")));
    }
    answer(context.web, context.exchange, Some(&access))
}

/// Answers: about the exports that somebody may know of, or about all.
pub(super) fn answer(web: &Web, exchange: &mut dyn Exchange, access: Option<&Access>) -> Outcome {
    let text =
        web.services.numbers(access).text().map_err(|error| refuse(500, format!("cannot write numbers: {error}")))?;
    only_read(exchange)?;
    tell(exchange, MEDIA_TYPE, text.as_bytes())
}

/// Nothing can be done here but read.
pub(super) fn only_read(exchange: &dyn Exchange) -> Outcome<()> {
    match exchange.request().method {
        Method::Get | Method::Head => Ok(()),
        _ => Err(Refused::new(405, "this can be read, and nothing else").with("Allow", "GET, HEAD").into()),
    }
}

/// A text that is the whole answer.
pub(super) fn tell(exchange: &mut dyn Exchange, kind: &str, text: &[u8]) -> Outcome {
    let response = Response::new(200).with("Content-Type", kind).with("Cache-Control", "no-store");
    exchange.begin(response, Length::Known(text.len() as u64))?;
    let wanted = exchange.request().method == Method::Get;
    if wanted {
        exchange.write(text)?;
    }
    exchange.end(&Headers::new())?;
    Ok(Done { status: 200, bytes: if wanted { text.len() as u64 } else { 0 } })
}
