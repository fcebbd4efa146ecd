//! The agent's API over HTTP: its routes, the key, and the form of a refusal.
//!
//! What this module does not know: processes and tools; it hands orders to the table of runs.

use std::io;
use std::sync::Arc;

use auth::AccessKey;
use model::id::Uuid;
use serde::Serialize;
use serve::{ClearText, Exchange, Length, Protocols, Rejection, Service};
use subtle::ConstantTimeEq;
use web::routes::{self, Answer, JSON, PROBLEM, Route, RouteError};
use web::{Headers, Refused, Response};

use super::checked_order::{CheckedOrder, lifetime};
use super::installed::InstalledTools;
use super::limits::ORDER_BYTES_MAX;
use super::run_table::RunTable;
use super::tool_run::ToolRun;
use super::words::{AgentHealth, AgentTools, ToolRunOrder, ToolRunRenewal};

/// The service behind the port of an agent.
pub(super) struct AgentService {
    /// The key that every request but one needs.
    pub key: AccessKey,
    /// The tools.
    pub tools: InstalledTools,
    /// Whether the kernel kills the clients if the agent dies.
    pub ends_with_agent: bool,
    /// The runs.
    pub runs: RunTable,
    /// Whether the port speaks TLS; then it does not speak HTTP in clear text.
    pub has_tls: bool,
}

/// An answer: its status and its document.
struct AgentAnswer {
    status: u16,
    media: &'static str,
    text: Vec<u8>,
    headers: Headers,
}

/// A request that is being answered.
struct AgentRequest<'a> {
    service: &'a AgentService,
    exchange: &'a mut dyn Exchange,
    id: Option<Uuid>,
}

type Answered = Result<AgentAnswer, Refused>;

/// The function that answers a route, and whether the route needs the key.
#[derive(Clone, Copy)]
struct AgentHandler {
    needs_key: bool,
    answer: fn(&mut AgentRequest<'_>) -> Answered,
}

const fn with_key(answer: fn(&mut AgentRequest<'_>) -> Answered) -> AgentHandler {
    AgentHandler { needs_key: true, answer }
}

/// All routes.
const ROUTES: &[Route<AgentHandler>] = &[
    Route {
        method: "GET",
        path: "/api/v1/health",
        name: "health",
        summary: "Returns whether the agent is in service; needs no key",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "in service", "AgentHealth")],
        handler: AgentHandler { needs_key: false, answer: health },
    },
    Route {
        method: "GET",
        path: "/api/v1/tools",
        name: "tools",
        summary: "Returns the tools with their versions, or why they cannot be run",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the tools", "AgentTools")],
        handler: with_key(tools),
    },
    Route {
        method: "POST",
        path: "/api/v1/runs",
        name: "start",
        summary: "Runs clients of a tool over files; the same order sent again returns the same run",
        query: &[],
        body: Some("ToolRunOrder"),
        answers: &[
            Answer::json(201, "a new run", "ToolRunStatus"),
            Answer::json(200, "the run that this order began earlier", "ToolRunStatus"),
            Answer::problem(409, "the id belongs to another order"),
            Answer::problem(503, "too many clients run, or the tool cannot be run"),
        ],
        handler: with_key(start),
    },
    Route {
        method: "GET",
        path: "/api/v1/runs/{id}",
        name: "run",
        summary: "Returns a run",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the run", "ToolRunStatus"), Answer::problem(404, "no such run")],
        handler: with_key(|request| json(200, &request.run()?.status())),
    },
    Route {
        method: "PATCH",
        path: "/api/v1/runs/{id}",
        name: "renew",
        summary: "Lets a run go on for another lifetime; a run that has ended does not change",
        query: &[],
        body: Some("ToolRunRenewal"),
        answers: &[Answer::json(200, "the run", "ToolRunStatus"), Answer::problem(404, "no such run")],
        handler: with_key(renew),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/runs/{id}",
        name: "stop",
        summary: "Stops a run, and waits until its processes have ended",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the run", "ToolRunStatus"), Answer::problem(404, "no such run")],
        handler: with_key(stop),
    },
];

fn health(request: &mut AgentRequest<'_>) -> Answered {
    let runs = &request.service.runs;
    let health = AgentHealth {
        v: 1,
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clients: runs.clients(),
        clients_max: runs.clients_max(),
    };
    json(200, &health)
}

fn tools(request: &mut AgentRequest<'_>) -> Answered {
    let service = request.service;
    json(200, &AgentTools { v: 1, ends_with_agent: service.ends_with_agent, tools: service.tools.describe() })
}

fn start(request: &mut AgentRequest<'_>) -> Answered {
    let order: ToolRunOrder = request.read("an order")?;
    let service = request.service;
    let (run, is_new) = service.runs.begin(CheckedOrder::check(&order, &service.tools)?)?;
    if is_new {
        let peer = request.exchange.peer();
        tracing::info!(id = %order.id, tool = order.tool, files = order.files.len(), clients = order.clients, %peer, "a run begins");
    }
    json(if is_new { 201 } else { 200 }, &run.status())
}

fn renew(request: &mut AgentRequest<'_>) -> Answered {
    let renewal: ToolRunRenewal = request.read("a renewal")?;
    let run = request.run()?;
    run.renew(lifetime(renewal.lifetime_s)?);
    json(200, &run.status())
}

fn stop(request: &mut AgentRequest<'_>) -> Answered {
    let run = request.run()?;
    request.service.runs.stop(&run);
    let status = run.status();
    tracing::info!(id = %status.id, peer = %request.exchange.peer(), "a run was stopped");
    json(200, &status)
}

fn json(status: u16, value: &impl Serialize) -> Answered {
    let mut text = serde_json::to_vec(value)
        .map_err(|error| Refused::new(500, format!("the answer cannot be written: {error}")))?;
    text.push(b'\n');
    Ok(AgentAnswer { status, media: JSON, text, headers: Headers::new() })
}

/// A refusal as a problem document (RFC 9457).
fn problem(refused: &Refused) -> AgentAnswer {
    let text = serde_json::to_vec(&refused.problem()).unwrap_or_default();
    AgentAnswer { status: refused.status, media: PROBLEM, text, headers: refused.headers.clone() }
}

impl AgentRequest<'_> {
    /// The run that the path names.
    fn run(&self) -> Result<Arc<ToolRun>, Refused> {
        let found = self.id.and_then(|id| self.service.runs.get(id));
        let missing =
            || Refused::new(404, "this agent has no run of this id: it was restarted, or the run ended long ago");
        found.ok_or_else(missing)
    }

    /// Reads the body as JSON.
    fn read<T: serde::de::DeserializeOwned>(&mut self, what: &str) -> Result<T, Refused> {
        let too_long = || Refused::new(413, format!("{what} has at most {ORDER_BYTES_MAX} bytes"));
        if self.exchange.body_length().is_some_and(|bytes| bytes > ORDER_BYTES_MAX as u64) {
            return Err(too_long());
        }
        self.exchange.expect_short_body();
        let mut body = Vec::new();
        let mut piece = [0; 16 << 10];
        loop {
            let got = self.exchange.read(&mut piece);
            match got.map_err(|error| Refused::new(400, format!("{what} cannot be read: {error}")))? {
                0 => break,
                got if body.len() + got > ORDER_BYTES_MAX => return Err(too_long()),
                got => body.extend_from_slice(&piece[..got]),
            }
        }
        web::json::read(&body, what)
    }
}

impl AgentService {
    fn handle(&self, exchange: &mut dyn Exchange) -> Answered {
        let request = exchange.request();
        let target = web::target::parse(&request.target);
        let target = target.map_err(|error| Refused::new(error.status(), error.to_string()))?;
        let path = String::from_utf8_lossy(target.path.as_bytes()).into_owned();
        let found = routes::find(ROUTES, request.method.name(), &path);
        // Without the key a client does not learn which paths exist.
        if !found.as_ref().is_ok_and(|(route, _)| !route.handler.needs_key) {
            self.check_key(&request.headers)?;
        }
        let (route, id) = found.map_err(|unrouted| match unrouted {
            RouteError::Path => Refused::new(404, "an agent has no such path; see docs/exercise.md"),
            RouteError::Method(methods) => {
                let allowed = methods.join(", ");
                Refused::new(405, format!("{} is not allowed here; {allowed} is", request.method.name()))
                    .with("Allow", allowed)
            }
        })?;
        let not_an_id = |_| Refused::new(400, "the id of a run is a UUID, and this is not one");
        let id = id.map(|text| text.parse().map_err(not_an_id)).transpose()?;
        (route.handler.answer)(&mut AgentRequest { service: self, exchange, id })
    }

    /// Checks that a request shows the agent's key.
    fn check_key(&self, headers: &Headers) -> Result<(), Refused> {
        let shown = headers.get("authorization").and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
        });
        let key = self.key.expose_text();
        // The time of the comparison says nothing about the key.
        if shown.is_some_and(|shown| bool::from(shown.as_bytes().ct_eq(key.as_bytes()))) {
            return Ok(());
        }
        let reason = match shown {
            Some(_) => {
                "this is not the key of this agent; it prints its key when it starts, or takes it from --key-file"
            }
            None => "show the key of this agent: Authorization: Bearer lhk1_…",
        };
        Err(Refused::new(401, reason).with("WWW-Authenticate", "Bearer"))
    }
}

fn send(exchange: &mut dyn Exchange, answer: AgentAnswer) -> io::Result<()> {
    let mut response = Response::new(answer.status)
        .with("Content-Type", answer.media)
        .with("Cache-Control", "no-store")
        .with("X-Content-Type-Options", "nosniff");
    answer.headers.iter().for_each(|(name, value)| response.headers.add(name, value));
    exchange.begin(response, Length::Known(answer.text.len() as u64))?;
    if exchange.request().method != web::Method::Head {
        exchange.write(&answer.text)?;
    }
    exchange.end(&Headers::new())
}

impl Service for AgentService {
    fn answer(&self, exchange: &mut dyn Exchange) {
        let peer = exchange.peer();
        let answer = self.handle(exchange).unwrap_or_else(|refused| {
            tracing::info!(%peer, status = refused.status, reason = refused.reason, "a request was refused");
            problem(&refused)
        });
        if let Err(error) = send(exchange, answer) {
            tracing::info!(%peer, %error, "an answer could not be sent");
        }
    }

    fn refused(&self, refusal: &Rejection<'_>) {
        tracing::info!(?refusal, "a connection was refused");
    }
}

impl Protocols for AgentService {
    fn clear_text(&self, _peer: std::net::SocketAddr) -> ClearText {
        if self.has_tls {
            ClearText::Refused("this agent speaks HTTP over TLS only: https://")
        } else {
            ClearText::Served
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_health_needs_no_key_and_names_are_unique() {
        let open: Vec<&str> = ROUTES.iter().filter(|route| !route.handler.needs_key).map(|route| route.name).collect();
        assert_eq!(open, ["health"]);
        let mut names: Vec<&str> = ROUTES.iter().map(|route| route.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROUTES.len());
    }
}
