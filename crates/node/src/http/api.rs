//! The node's API, `/api/v1`: which questions there are, who may ask them, and how a no is written. What is answered is written
//! next door ([`answer`], [`events`], [`probes`]), the document that describes it ([`document`]) is made of the same table of routes.
//!
//! What this room does not know: how a transfer is carried (`crate::transfers`), how a test is made (`crate::test_orders`), who asks (the `keeper`).

mod answer;
mod document;
mod events;
mod probes;
mod wlcg;

use model::Fault;
use model::id::Uuid;
use model::v1::node::Problem;
use serve::{Exchange, Length};
use web::target::{self, Target};
use web::{Headers, Method, Response};

use super::Web;
use super::flows;
use super::refused::{Done, Outcome, Refused, refuse};
use super::request_context::RequestContext;
use authn::Principal;

/// What the paths of this API begin with. No export has this name.
const ROOT: &str = "api";
/// Bytes of an order.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;
/// Transfers on a page: unless asked otherwise, and at most.
pub(crate) const PAGE: (usize, usize) = (1000, 10_000);
/// Streams of events at once: each has a thread.
pub(crate) const EVENT_STREAMS_MAX: usize = 64;
/// And of one who asks.
pub(crate) const EVENT_STREAMS_EACH_MAX: usize = 16;

/// What the API has of its own.
#[derive(Default)]
pub(crate) struct Api {
    /// Those who listen to events.
    audience: events::Audience,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    /// Anybody, before it is even looked at who that is.
    Anybody,
    /// Whoever is let in; the answer is theirs.
    Guests,
    /// The same, and without a credential whoever may read the numbers of the node (`--metrics`), who is told all.
    Watchers,
    /// Whoever has said who they are.
    Named,
}

/// An answer as the document tells of it: its status, what it means, and of which type it is.
struct Told {
    status: u16,
    means: &'static str,
    kind: Option<&'static str>,
}

const fn told(status: u16, means: &'static str, kind: &'static str) -> Told {
    Told { status, means, kind: Some(kind) }
}

/// One question.
struct Route {
    method: &'static str,
    /// Its path; `{id}` stands for that of a transfer or a test.
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    whom: Whom,
    /// Parameters behind the question mark, and what they mean.
    query: &'static [(&'static str, &'static str)],
    /// The type of its body.
    body: Option<&'static str>,
    answers: &'static [Told],
    answer: fn(&mut RequestContext<'_>, Option<Uuid>) -> Outcome,
}

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";
const EVENTS: &str = "text/event-stream";

/// All questions.
const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/api/v1",
        name: "index",
        summary: "What is here",
        whom: Whom::Guests,
        query: &[],
        body: None,
        answers: &[told(200, "the questions of this API", "Index")],
        answer: answer::index,
    },
    Route {
        method: "GET",
        path: "/api/v1/openapi.json",
        name: "openapi",
        summary: "This document",
        whom: Whom::Guests,
        query: &[],
        body: None,
        answers: &[Told { status: 200, means: "an OpenAPI document", kind: None }],
        answer: answer::openapi,
    },
    Route {
        method: "GET",
        path: "/api/v1/health",
        name: "health",
        summary: "Whether the node is well; answered to anybody",
        whom: Whom::Anybody,
        query: &[],
        body: None,
        answers: &[told(200, "it is", "Health"), told(503, "it is stopping", "Health")],
        answer: answer::health,
    },
    Route {
        method: "GET",
        path: "/api/v1/capabilities",
        name: "capabilities",
        summary: "What the node can do for whoever asks",
        whom: Whom::Guests,
        query: &[],
        body: None,
        answers: &[told(200, "addresses, exports, protocols, limits, load", "Capabilities")],
        answer: answer::capabilities,
    },
    Route {
        method: "GET",
        path: "/api/v1/host",
        name: "host",
        summary: "How the host's settings stand, where the node tells (`serve --audit`)",
        whom: Whom::Named,
        query: &[
            ("rate_bit_s", "the rate that transfers are to reach; that of its NICs unless said"),
            ("rtt_s", "the longest round trip, seconds: 0.1 unless said"),
            ("role", "`dtn`, `measurement` or `both`: `dtn` unless said"),
        ],
        body: None,
        answers: &[told(200, "whose audit it is, and its findings", "Host"), told(403, "it does not tell", "Problem")],
        answer: answer::host,
    },
    Route {
        method: "GET",
        path: "/api/v1/flows",
        name: "flows",
        summary: "Who moves most: within a minute, an hour, and since the node started",
        whom: Whom::Named,
        query: &[("top", "rows of each table: 20 unless said, 1000 at most")],
        body: None,
        answers: &[told(200, "of everybody for who may see the whole node, of himself for anybody else", "Flows")],
        answer: |context, _| flows::answer(context),
    },
    Route {
        method: "POST",
        path: "/api/v1/transfers",
        name: "create",
        summary: "Orders a transfer; the same order again is the same transfer",
        whom: Whom::Named,
        query: &[],
        body: Some("Order"),
        answers: &[
            told(201, "a new one", "Transfer"),
            told(200, "it was ordered before", "Transfer"),
            told(
                409,
                "the id is that of another order, or of one that ended and is not remembered any more",
                "Problem",
            ),
            told(503, "as much is ordered already as may be", "Problem"),
        ],
        answer: answer::create,
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers",
        name: "list",
        summary: "A page of the transfers of whoever asks, oldest first",
        whom: Whom::Named,
        query: &[
            ("state", "only those in this state"),
            ("after", "only those behind this one: `next` of the page before"),
            ("limit", "how many at most: 1000 unless said, 10000 at most"),
        ],
        body: None,
        answers: &[told(200, "a page", "Transfers")],
        answer: answer::list,
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}",
        name: "transfer",
        summary: "One of them",
        whom: Whom::Named,
        query: &[],
        body: None,
        answers: &[told(200, "how it fares", "Transfer"), told(404, "there is none", "Problem")],
        answer: answer::one,
    },
    Route {
        method: "PATCH",
        path: "/api/v1/transfers/{id}",
        name: "change",
        summary: "Changes its limit or streams, pauses it, or lets it go on",
        whom: Whom::Named,
        query: &[],
        body: Some("Change"),
        answers: &[told(200, "how it fares", "Transfer"), told(409, "it has ended", "Problem")],
        answer: answer::change,
    },
    Route {
        method: "DELETE",
        path: "/api/v1/transfers/{id}",
        name: "cancel",
        summary: "Ends it; what has arrived stays. One that has ended stays as it ended",
        whom: Whom::Named,
        query: &[],
        body: None,
        answers: &[told(200, "it has ended", "Transfer"), told(202, "it is ending", "Transfer")],
        answer: answer::cancel,
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}/receipt",
        name: "receipt",
        summary: "What it came to, once it has ended",
        whom: Whom::Named,
        query: &[],
        body: None,
        answers: &[
            told(200, "its receipt", "Receipt"),
            told(404, "it ended without having begun", "Problem"),
            told(409, "it has not ended", "Problem"),
        ],
        answer: answer::receipt,
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}/events",
        name: "transferEvents",
        summary: "Events of one transfer until it has ended; `Last-Event-ID` goes on",
        whom: Whom::Named,
        query: &[],
        body: None,
        answers: &[
            Told { status: 200, means: "server-sent events, each a Transfer", kind: None },
            Told { status: 204, means: "it has ended, and its end was heard", kind: None },
        ],
        answer: events::of_one,
    },
    Route {
        method: "GET",
        path: "/api/v1/events",
        name: "events",
        summary: "Events of all transfers of whoever asks; `Last-Event-ID` goes on",
        whom: Whom::Named,
        query: &[],
        body: None,
        answers: &[
            Told { status: 200, means: "server-sent events, each a Transfer", kind: None },
            told(503, "too many listen already", "Problem"),
        ],
        answer: events::of_all,
    },
    Route {
        method: "POST",
        path: "/api/v1/probes",
        name: "createProbe",
        summary: "Orders a test from here to another node; the same order again is the same test",
        whom: Whom::Named,
        query: &[],
        body: Some("ProbeOrder"),
        answers: &[
            told(201, "a new one", "Probe"),
            told(200, "it was ordered before", "Probe"),
            told(409, "the id is that of another order", "Problem"),
        ],
        answer: probes::create,
    },
    Route {
        method: "GET",
        path: "/api/v1/probes",
        name: "listProbes",
        summary: "A page of the tests of whoever asks, oldest first, without their reports",
        whom: Whom::Named,
        query: &[
            ("state", "only those in this state"),
            ("after", "only those behind this one: `next` of the page before"),
            ("limit", "how many at most: 1000 unless said, 10000 at most"),
        ],
        body: None,
        answers: &[told(200, "a page", "Probes")],
        answer: probes::list,
    },
    Route {
        method: "GET",
        path: "/api/v1/probes/{id}",
        name: "probe",
        summary: "One of them, with its report once it is done; after a restart of the node it is not known",
        whom: Whom::Named,
        query: &[],
        body: None,
        answers: &[told(200, "how it fares, or what it found", "Probe"), told(404, "there is none", "Problem")],
        answer: probes::one,
    },
    Route {
        method: "DELETE",
        path: "/api/v1/probes/{id}",
        name: "cancelProbe",
        summary: "Ends it; one that has ended stays as it ended",
        whom: Whom::Named,
        query: &[],
        body: None,
        answers: &[told(200, "it has ended", "Probe"), told(202, "it is ending", "Probe")],
        answer: probes::cancel,
    },
    Route {
        method: "GET",
        path: "/api/v1/srr",
        name: "storage",
        summary: "How much storage there is, as the WLCG collects it (Storage Resource Reporting 4.2)",
        whom: Whom::Watchers,
        query: &[],
        body: None,
        answers: &[Told { status: 200, means: "a report", kind: None }],
        answer: wlcg::srr,
    },
    Route {
        method: "GET",
        path: "/api/v1/site-network",
        name: "network",
        summary: "What goes over the interfaces of this host, as the WLCG's site network monitoring reads it",
        whom: Whom::Watchers,
        query: &[],
        body: None,
        answers: &[Told { status: 200, means: "rates, bytes per second", kind: None }],
        answer: wlcg::network,
    },
];

/// Whether a request is this room's.
pub(crate) fn is_addressed(target: &Target) -> bool {
    target.path.as_bytes().split(|b| *b == b'/').next() == Some(ROOT.as_bytes())
}

/// Whether a no is written as a problem.
pub(crate) fn speaks_of_problems(request: &web::Request) -> bool {
    target::parse(&request.target).is_ok_and(|target| is_addressed(&target))
}

/// The route of a path and a method, with the id in it; a status where there is none.
fn find(path: &str, method: &str) -> Result<(&'static Route, Option<Uuid>), Refused> {
    let mut allowed = Vec::new();
    for route in ROUTES {
        let Some(id) = fits(route.path, path) else { continue };
        if route.method == method || route.method == "GET" && method == "HEAD" {
            let id = id.map(|text| {
                text.parse()
                    .map_err(|_| Refused::new(400, "the id of a transfer or a test is a UUID, and this is none"))
            });
            return Ok((route, id.transpose()?));
        }
        allowed.push(route.method);
    }
    if allowed.is_empty() {
        return Err(Refused::new(404, "there is no such question in this API; GET /api/v1 says which there are"));
    }
    let refused = Refused::new(405, format!("{method} does nothing here; {} does", allowed.join(", ")));
    Err(refused.with("Allow", allowed.join(", ")))
}

/// Whether a path is that of a route, and what stands in it for the id.
fn fits<'a>(route: &str, path: &'a str) -> Option<Option<&'a str>> {
    let (mut parts, mut id) = (path.split('/'), None);
    for wanted in route.trim_start_matches('/').split('/') {
        let part = parts.next()?;
        match wanted {
            "{id}" => id = Some(part),
            wanted if wanted != part => return None,
            _ => {}
        }
    }
    parts.next().is_none().then_some(id)
}

/// Answers a request to this room. Who asks is found out by `who`, where it matters.
pub(crate) fn answer(
    web: &Web,
    exchange: &mut dyn Exchange,
    target: Target,
    who: &mut dyn FnMut(&mut dyn Exchange, &Target) -> Outcome<Principal>,
) -> Outcome {
    let path = String::from_utf8_lossy(target.path.as_bytes()).into_owned();
    let method = exchange.request().method.clone();
    if method == Method::Options {
        return options(exchange, &path);
    }
    let (route, id) = find(&path, method.name())?;
    let principal = match route.whom {
        Whom::Anybody => Principal::unknown(),
        Whom::Watchers if web.rules.tells_numbers_to(exchange.peer().ip()) => Principal::unknown(),
        Whom::Guests | Whom::Watchers | Whom::Named => who(exchange, &target)?,
    };
    if route.whom == Whom::Watchers && principal.is_anonymous && !web.rules.tells_numbers_to(exchange.peer().ip()) {
        return Err(web
            .authenticator
            .challenge_anonymous("the numbers of this node are for its guests, and for those of --metrics")
            .into());
    }
    if route.whom == Whom::Named && principal.is_anonymous {
        let reason =
            "transfers and tests are for those who say who they are: show a key, a token, a macaroon or a certificate";
        return Err(web.authenticator.challenge_anonymous(reason).into());
    }
    (route.answer)(&mut web.context(exchange, target, principal), id)
}

/// What can be done at a path.
fn options(exchange: &mut dyn Exchange, path: &str) -> Outcome {
    let methods: Vec<&str> = ROUTES.iter().filter(|r| fits(r.path, path).is_some()).map(|r| r.method).collect();
    exchange.begin(Response::new(200).with("Allow", methods.join(", ")), Length::Known(0))?;
    exchange.end(&Headers::new())?;
    Ok(Done { status: 200, bytes: 0 })
}

/// A no of this room, as RFC 9457 has it.
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

/// The id of a route that has one.
fn expect(id: Option<Uuid>) -> Outcome<Uuid> {
    id.ok_or_else(|| refuse(500, "this question has no id; that is a defect of ours"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_find_their_questions() {
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
    fn names_of_questions_differ() {
        let mut names: Vec<&str> = ROUTES.iter().map(|route| route.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROUTES.len());
    }

    #[test]
    fn a_no_is_a_problem() {
        let (text, kind) = problem(&Refused::new(404, "there is none"));
        let read: Problem = serde_json::from_str(&text).unwrap();
        assert_eq!((read.status, read.fault.as_str(), read.reason.as_str()), (404, "missing", "there is none"));
        assert_eq!((read.title.as_str(), kind), ("Not Found", PROBLEM));
    }
}
