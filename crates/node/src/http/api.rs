//! The node's API, `/api/v1`: its routes, who may use them, and the form of a refusal. The answers are in [`answer`], [`events`] and
//! [`probes`]; the document that describes the API ([`document`]) is generated from the same table of routes.
//!
//! What this module does not know: how a transfer runs (`crate::transfers`), how a test runs (`crate::test_orders`), how a client is
//! authenticated (`authn`).

mod answer;
mod document;
mod events;
mod probes;
mod schedules;
mod scratches;
mod table;
mod tape;
mod wlcg;

use model::Fault;
use model::id::Uuid;
use model::v1::node::Problem;
use serve::{Exchange, Length};
use web::routes::{self, PROBLEM, Route, RouteError};
use web::target::{self, Target};
use web::{Headers, Method, Response};

use self::table::ROUTES;
pub(crate) use self::tape::{describe as describe_tape, is_discovery as is_tape_discovery};
use super::HttpService;
use super::refused::{Outcome, Refused, RequestOutcome, refuse};
use super::request_context::RequestContext;
use authn::Principal;

/// The first segment of the paths of this API. No export has this name.
const ROOT: &str = "api";
/// Bytes of the body of an order.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;
/// Transfers on a page.
pub(crate) const PAGE: PageBounds = PageBounds { usual: 1000, max: 10_000 };
/// Streams of events at once: each has a thread.
pub(crate) const EVENT_STREAMS_MAX: usize = 64;
/// Streams of events of one holder at once.
pub(crate) const EVENT_STREAMS_EACH_MAX: usize = 16;

/// The number of entries on a page.
pub(crate) struct PageBounds {
    /// By default.
    pub usual: usize,
    /// At most.
    pub max: usize,
}

/// The state of the API.
#[derive(Default)]
pub(crate) struct Api {
    /// The subscribers to events.
    subscribers: events::EventSubscribers,
}

/// The function that answers a route, and who may use the route.
#[derive(Clone, Copy)]
struct Handler {
    access: RouteAccess,
    answer: fn(&mut RequestContext<'_>, Option<Uuid>) -> Outcome,
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteAccess {
    /// Every client, without authentication.
    Public,
    /// Every principal that is admitted; the answer is about what it may see.
    Admitted,
    /// As `Admitted`; and the addresses of `--metrics` without a credential, which get the complete answer.
    Monitoring,
    /// Every principal with a credential.
    Authenticated,
}

/// Whether a request is for the API.
pub(crate) fn is_addressed(target: &Target) -> bool {
    target.path.as_bytes().split(|b| *b == b'/').next() == Some(ROOT.as_bytes())
}

/// Whether a refusal of this request is sent as a problem document (RFC 9457).
pub(crate) fn wants_problem(request: &web::Request) -> bool {
    target::parse(&request.target).is_ok_and(|target| is_addressed(&target))
}

/// The route of a path and a method, with the id in it.
fn find(path: &str, method: &str) -> Result<(&'static Route<Handler>, Option<Uuid>), Refused> {
    let (route, id) = routes::find(ROUTES, method, path).map_err(|unrouted| match unrouted {
        RouteError::Path => Refused::new(404, "this API has no such path; GET /api/v1 lists all paths"),
        RouteError::Method(methods) => {
            let allowed = methods.join(", ");
            Refused::new(405, format!("{method} is not allowed here; {allowed} is")).with("Allow", allowed)
        }
    })?;
    let not_an_id = |_| Refused::new(400, "the id of a transfer or a test is a UUID, and this is not one");
    Ok((route, id.map(|text| text.parse().map_err(not_an_id)).transpose()?))
}

/// Answers a request to the API. `authenticate` authenticates the client, if the route needs that.
pub(crate) fn answer(
    service: &HttpService,
    exchange: &mut dyn Exchange,
    target: Target,
    authenticate: &mut dyn FnMut(&mut dyn Exchange, &Target) -> Outcome<Principal>,
) -> Outcome {
    let path = String::from_utf8_lossy(target.path.as_bytes()).into_owned();
    let method = exchange.request().method.clone();
    if method == Method::Options {
        return options(exchange, &path);
    }
    let (route, id) = find(&path, method.name())?;
    let principal = match route.handler.access {
        RouteAccess::Public => Principal::unknown(),
        RouteAccess::Monitoring if service.access_control.may_read_metrics(exchange.peer().ip()) => {
            Principal::unknown()
        }
        RouteAccess::Admitted | RouteAccess::Monitoring | RouteAccess::Authenticated => {
            authenticate(exchange, &target)?
        }
    };
    if route.handler.access == RouteAccess::Monitoring
        && principal.is_anonymous
        && !service.access_control.may_read_metrics(exchange.peer().ip())
    {
        return Err(service
            .services
            .authenticator
            .challenge_anonymous(
                "the metrics of this node are for clients that it admits, and for the addresses of --metrics",
            )
            .into());
    }
    if route.handler.access == RouteAccess::Authenticated && principal.is_anonymous {
        let reason = "transfers and tests need authentication: show a key, a token, a macaroon or a certificate";
        return Err(service.services.authenticator.challenge_anonymous(reason).into());
    }
    (route.handler.answer)(&mut service.context(exchange, target, principal), id)
}

/// OPTIONS: the methods of a path.
fn options(exchange: &mut dyn Exchange, path: &str) -> Outcome {
    let methods = routes::methods(ROUTES, path);
    exchange.begin(Response::new(200).with("Allow", methods.join(", ")), Length::Known(0))?;
    exchange.end(&Headers::new())?;
    Ok(RequestOutcome { status: 200, bytes: 0 })
}

/// A refusal as a problem document (RFC 9457), and its media type.
pub(crate) fn problem(refused: &Refused) -> (String, &'static str) {
    let fault = refused.fault.unwrap_or(match refused.status {
        401 | 403 => Fault::Auth,
        404 => Fault::Missing,
        400..=499 => Fault::Config,
        _ => Fault::Local,
    });
    let title = web::head::reason(refused.status).to_owned();
    let problem =
        Problem { title, status: refused.status, fault: fault.word().to_owned(), reason: refused.reason.clone() };
    let text = serde_json::to_string(&problem).unwrap_or_default();
    (text + "\n", PROBLEM)
}

/// The id in the path of a route that has one.
fn required_id(id: Option<Uuid>) -> Outcome<Uuid> {
    id.ok_or_else(|| refuse(500, "this route has no id; that is a defect of the node"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_method_find_their_route() {
        let id = "0190b5c8-0000-7000-8000-000000000001";
        let found = |method: &str, path: &str| find(path, method).map(|(route, id)| (route.name, id.is_some()));
        assert_eq!(found("GET", "api/v1"), Ok(("index", false)));
        assert_eq!(found("HEAD", "api/v1/health"), Ok(("health", false)));
        assert_eq!(found("PATCH", &format!("api/v1/transfers/{id}")), Ok(("change", true)));
        assert_eq!(found("GET", &format!("api/v1/transfers/{id}/receipt")), Ok(("receipt", true)));
        let status = |method: &str, path: &str| find(path, method).map(|_| ()).unwrap_err().status;
        assert_eq!(status("GET", "api/v1/transfers/me"), 400);
        assert_eq!(status("GET", "api/v2"), 404);
        assert_eq!(status("GET", &format!("api/v1/transfers/{id}/receipt/x")), 404);
        let refused = find("api/v1/transfers", "PUT").map(|_| ()).unwrap_err();
        assert_eq!((refused.status, refused.headers.get("allow")), (405, Some("POST, GET")));
    }

    #[test]
    fn names_of_routes_are_unique() {
        let mut names: Vec<&str> = ROUTES.iter().map(|route| route.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROUTES.len());
    }

    #[test]
    fn a_refusal_is_a_problem_document() {
        let (text, kind) = problem(&Refused::new(404, "there is none"));
        let read: Problem = serde_json::from_str(&text).unwrap();
        assert_eq!((read.status, read.fault.as_str(), read.reason.as_str()), (404, "missing", "there is none"));
        assert_eq!((read.title.as_str(), kind), ("Not Found", PROBLEM));
    }
}
