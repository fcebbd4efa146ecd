//! The table of routes of the node's API: what is asked, who may ask, what answers.

use std::sync::OnceLock;

use model::id::Uuid;
use web::routes::{Answer, Route};

use super::{Handler, Whom, answer, document, events, probes, schedules, wlcg};
use crate::http::flows;
use crate::http::refused::Outcome;
use crate::http::request_context::RequestContext;

/// All routes.
pub(super) const ROUTES: &[Route<Handler>] = &[
    Route {
        method: "GET",
        path: "/api/v1",
        name: "index",
        summary: "What is here",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the questions of this API", "Index")],
        handler: Handler { whom: Whom::Guests, answer: index },
    },
    Route {
        method: "GET",
        path: "/api/v1/openapi.json",
        name: "openapi",
        summary: "This document",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "an OpenAPI document")],
        handler: Handler { whom: Whom::Guests, answer: openapi },
    },
    Route {
        method: "GET",
        path: "/api/v1/health",
        name: "health",
        summary: "Whether the node is well; answered to anybody",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "it is", "Health"), Answer::json(503, "it is stopping", "Health")],
        handler: Handler { whom: Whom::Anybody, answer: answer::health },
    },
    Route {
        method: "GET",
        path: "/api/v1/capabilities",
        name: "capabilities",
        summary: "What the node can do for whoever asks",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "addresses, exports, protocols, limits, load", "Capabilities")],
        handler: Handler { whom: Whom::Guests, answer: answer::capabilities },
    },
    Route {
        method: "GET",
        path: "/api/v1/host",
        name: "host",
        summary: "How the host's settings stand, where the node tells (`serve --audit`)",
        query: &[
            ("rate_bit_s", "the rate that transfers are to reach; that of its NICs unless said"),
            ("rtt_s", "the longest round trip, seconds: 0.1 unless said"),
            ("role", "`dtn`, `measurement` or `both`: `dtn` unless said"),
        ],
        body: None,
        answers: &[
            Answer::json(200, "whose audit it is, and its findings", "Host"),
            Answer::problem(403, "it does not tell"),
        ],
        handler: Handler { whom: Whom::Named, answer: answer::host },
    },
    Route {
        method: "GET",
        path: "/api/v1/flows",
        name: "flows",
        summary: "Who moves most: within a minute, an hour, and since the node started",
        query: &[("top", "rows of each table: 20 unless said, 1000 at most")],
        body: None,
        answers: &[Answer::json(
            200,
            "of everybody for who may see the whole node, of himself for anybody else",
            "Flows",
        )],
        handler: Handler { whom: Whom::Named, answer: |context, _| flows::answer(context) },
    },
    Route {
        method: "POST",
        path: "/api/v1/transfers",
        name: "create",
        summary: "Orders a transfer; the same order again is the same transfer",
        query: &[],
        body: Some("Order"),
        answers: &[
            Answer::json(201, "a new one", "Transfer"),
            Answer::json(200, "it was ordered before", "Transfer"),
            Answer::problem(
                409,
                "the id is that of another order, or of one that ended and is not remembered any more",
            ),
            Answer::problem(503, "as much is ordered already as may be"),
        ],
        handler: Handler { whom: Whom::Named, answer: answer::create },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers",
        name: "list",
        summary: "A page of the transfers of whoever asks, oldest first",
        query: &[
            ("state", "only those in this state"),
            ("after", "only those behind this one: `next` of the page before"),
            ("limit", "how many at most: 1000 unless said, 10000 at most"),
        ],
        body: None,
        answers: &[Answer::json(200, "a page", "Transfers")],
        handler: Handler { whom: Whom::Named, answer: answer::list },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}",
        name: "transfer",
        summary: "One of them",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "how it fares", "Transfer"), Answer::problem(404, "there is none")],
        handler: Handler { whom: Whom::Named, answer: answer::one },
    },
    Route {
        method: "PATCH",
        path: "/api/v1/transfers/{id}",
        name: "change",
        summary: "Changes its limit or streams, pauses it, lets it go on, or ends it",
        query: &[],
        body: Some("Change"),
        answers: &[
            Answer::json(202, "it is ending", "Transfer"),
            Answer::json(200, "how it fares", "Transfer"),
            Answer::problem(409, "it has ended"),
        ],
        handler: Handler { whom: Whom::Named, answer: answer::change },
    },
    Route {
        method: "DELETE",
        path: "/api/v1/transfers/{id}",
        name: "cancel",
        summary: "Ends it; what has arrived stays. One that has ended stays as it ended",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "it has ended", "Transfer"), Answer::json(202, "it is ending", "Transfer")],
        handler: Handler { whom: Whom::Named, answer: answer::cancel },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}/receipt",
        name: "receipt",
        summary: "What it came to, once it has ended",
        query: &[],
        body: None,
        answers: &[
            Answer::json(200, "its receipt", "Receipt"),
            Answer::problem(404, "it ended without having begun"),
            Answer::problem(409, "it has not ended"),
        ],
        handler: Handler { whom: Whom::Named, answer: answer::receipt },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}/files",
        name: "files",
        summary: "What became of its files so far, where they were named one by one; of one that has ended, for a while",
        query: &[("after", "the `next` of the page before"), ("limit", "how many; 1,000 unless said, 10,000 at most")],
        body: None,
        answers: &[Answer::json(200, "files in the order in which they ended", "FileResults")],
        handler: Handler { whom: Whom::Named, answer: answer::files },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}/events",
        name: "transferEvents",
        summary: "Events of one transfer until it has ended; `Last-Event-ID` goes on",
        query: &[],
        body: None,
        answers: &[
            Answer::events(200, "server-sent events, each a Transfer"),
            Answer::any(204, "it has ended, and its end was heard"),
        ],
        handler: Handler { whom: Whom::Named, answer: events::of_one },
    },
    Route {
        method: "GET",
        path: "/api/v1/events",
        name: "events",
        summary: "Events of all transfers of whoever asks; `Last-Event-ID` goes on",
        query: &[],
        body: None,
        answers: &[
            Answer::events(200, "server-sent events, each a Transfer"),
            Answer::problem(503, "too many listen already"),
        ],
        handler: Handler { whom: Whom::Named, answer: events::of_all },
    },
    Route {
        method: "POST",
        path: "/api/v1/probes",
        name: "createProbe",
        summary: "Orders a test from here to another node; the same order again is the same test",
        query: &[],
        body: Some("ProbeOrder"),
        answers: &[
            Answer::json(201, "a new one", "Probe"),
            Answer::json(200, "it was ordered before", "Probe"),
            Answer::problem(409, "the id is that of another order"),
        ],
        handler: Handler { whom: Whom::Named, answer: probes::create },
    },
    Route {
        method: "GET",
        path: "/api/v1/probes",
        name: "listProbes",
        summary: "A page of the tests of whoever asks, oldest first, without their reports",
        query: &[
            ("state", "only those in this state"),
            ("after", "only those behind this one: `next` of the page before"),
            ("limit", "how many at most: 1000 unless said, 10000 at most"),
        ],
        body: None,
        answers: &[Answer::json(200, "a page", "Probes")],
        handler: Handler { whom: Whom::Named, answer: probes::list },
    },
    Route {
        method: "GET",
        path: "/api/v1/probes/{id}",
        name: "probe",
        summary: "One of them, with its report once it is done; after a restart of the node it is not known",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "how it fares, or what it found", "Probe"), Answer::problem(404, "there is none")],
        handler: Handler { whom: Whom::Named, answer: probes::one },
    },
    Route {
        method: "DELETE",
        path: "/api/v1/probes/{id}",
        name: "cancelProbe",
        summary: "Ends it; one that has ended stays as it ended",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "it has ended", "Probe"), Answer::json(202, "it is ending", "Probe")],
        handler: Handler { whom: Whom::Named, answer: probes::cancel },
    },
    Route {
        method: "POST",
        path: "/api/v1/schedules",
        name: "createSchedule",
        summary: "Has the node repeat a test until it is removed; the same schedule again is the same one",
        query: &[],
        body: Some("Schedule"),
        answers: &[
            Answer::json(201, "a new one", "ScheduleStatus"),
            Answer::json(200, "it was ordered before", "ScheduleStatus"),
            Answer::problem(409, "the id is that of another schedule"),
            Answer::problem(503, "as many are repeated already as may be"),
        ],
        handler: Handler { whom: Whom::Named, answer: schedules::create },
    },
    Route {
        method: "GET",
        path: "/api/v1/schedules",
        name: "listSchedules",
        summary: "The schedules of whoever asks",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "all of them", "Schedules")],
        handler: Handler { whom: Whom::Named, answer: schedules::list },
    },
    Route {
        method: "GET",
        path: "/api/v1/schedules/{id}",
        name: "schedule",
        summary: "One of them",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "how it fares", "ScheduleStatus"), Answer::problem(404, "there is none")],
        handler: Handler { whom: Whom::Named, answer: schedules::one },
    },
    Route {
        method: "DELETE",
        path: "/api/v1/schedules/{id}",
        name: "removeSchedule",
        summary: "Removes it; what it has found stays until it makes room",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "it is removed", "ScheduleStatus"), Answer::problem(404, "there is none")],
        handler: Handler { whom: Whom::Named, answer: schedules::remove },
    },
    Route {
        method: "GET",
        path: "/api/v1/measurements",
        name: "measurements",
        summary: "What the schedules of whoever asks found, oldest first",
        query: &[
            ("after", "only those behind this number: `next` of the answer before"),
            ("limit", "how many at most: 5000 unless said, and at most"),
            ("wait_s", "how long to wait for the first one, seconds: 0 unless said, 120 at most"),
        ],
        body: None,
        answers: &[
            Answer::json(200, "some of them, and where the next begin", "Measurements"),
            Answer::problem(503, "too many wait already"),
        ],
        handler: Handler { whom: Whom::Named, answer: schedules::measurements },
    },
    Route {
        method: "GET",
        path: "/api/v1/srr",
        name: "storage",
        summary: "How much storage there is, as the WLCG collects it (Storage Resource Reporting 4.2)",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "a report")],
        handler: Handler { whom: Whom::Watchers, answer: wlcg::srr },
    },
    Route {
        method: "GET",
        path: "/api/v1/site-network",
        name: "network",
        summary: "What goes over the interfaces of this host, as the WLCG's site network monitoring reads it",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "rates, bytes per second")],
        handler: Handler { whom: Whom::Watchers, answer: wlcg::network },
    },
];

/// GET /api/v1.
fn index(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let questions: Vec<_> = ROUTES
        .iter()
        .map(|route| serde_json::json!({"method": route.method, "path": route.path, "summary": route.summary}))
        .collect();
    let software = engine::SOFTWARE;
    answer::send(
        context,
        200,
        &serde_json::json!({"software": software, "document": "/api/v1/openapi.json", "questions": questions}),
    )
}

/// GET /api/v1/openapi.json.
fn openapi(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| document::text(ROUTES));
    answer::send_text(context, 200, text.clone().into_bytes())
}
