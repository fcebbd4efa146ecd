//! The table of routes of the node's API: paths, who may use them, and the functions that answer.

use std::sync::OnceLock;

use model::id::Uuid;
use web::routes::{Answer, Route};

use super::{Handler, RouteAccess, answer, document, events, probes, schedules, tape, wlcg};
use crate::http::flows;
use crate::http::refused::Outcome;
use crate::http::request_context::RequestContext;

/// All routes.
pub(super) const ROUTES: &[Route<Handler>] = &[
    Route {
        method: "GET",
        path: "/api/v1",
        name: "index",
        summary: "Lists the routes of this API",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "method, path and summary of each route", "Index")],
        handler: Handler { access: RouteAccess::Admitted, answer: index },
    },
    Route {
        method: "GET",
        path: "/api/v1/openapi.json",
        name: "openapi",
        summary: "Returns the OpenAPI document of this API",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "an OpenAPI document")],
        handler: Handler { access: RouteAccess::Admitted, answer: openapi },
    },
    Route {
        method: "GET",
        path: "/api/v1/health",
        name: "health",
        summary: "Returns whether the node is in service; needs no credential",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "in service", "Health"), Answer::json(503, "the node is stopping", "Health")],
        handler: Handler { access: RouteAccess::Public, answer: answer::health },
    },
    Route {
        method: "GET",
        path: "/api/v1/capabilities",
        name: "capabilities",
        summary: "Returns what the node offers to the client",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "addresses, exports, protocols, limits, load", "Capabilities")],
        handler: Handler { access: RouteAccess::Admitted, answer: answer::capabilities },
    },
    Route {
        method: "GET",
        path: "/api/v1/host",
        name: "host",
        summary: "Audits the settings of the host, if the node allows it (`serve --audit`)",
        query: &[
            ("rate_bit_s", "the rate that transfers are to reach, bit/s; default: the rate of the host's NICs"),
            ("rtt_s", "the longest round-trip time, seconds; default: 0.1"),
            ("role", "the purpose of the host: `dtn`, `measurement` or `both`; default: `dtn`"),
        ],
        body: None,
        answers: &[
            Answer::json(200, "the host, and the findings of the audit", "Host"),
            Answer::problem(403, "the node does not allow audits"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: answer::host },
    },
    Route {
        method: "GET",
        path: "/api/v1/flows",
        name: "flows",
        summary: "Lists the hosts and users that moved most bytes: in the last minute, the last hour, and since the node started",
        query: &[("top", "the most rows of each table; default: 20, at most 1000")],
        body: None,
        answers: &[Answer::json(
            200,
            "rows of all users, if the principal may see the whole node; otherwise only its own row",
            "Flows",
        )],
        handler: Handler { access: RouteAccess::Authenticated, answer: |context, _| flows::answer(context) },
    },
    Route {
        method: "POST",
        path: "/api/v1/transfers",
        name: "create",
        summary: "Orders a transfer; the same order sent again returns the same transfer",
        query: &[],
        body: Some("Order"),
        answers: &[
            Answer::json(201, "a new transfer", "Transfer"),
            Answer::json(200, "the transfer that this order created earlier", "Transfer"),
            Answer::problem(
                409,
                "the id belongs to another order, or to a transfer that has ended and is no longer kept",
            ),
            Answer::problem(503, "the limit on unfinished transfers is reached"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: answer::create },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers",
        name: "list",
        summary: "Lists the principal's transfers, a page at a time, oldest first",
        query: &[
            ("state", "only entries in this state"),
            ("after", "only entries after this id: `next` of the previous page"),
            ("limit", "the most entries of the page; default: 1000, at most 10000"),
        ],
        body: None,
        answers: &[Answer::json(200, "a page", "Transfers")],
        handler: Handler { access: RouteAccess::Authenticated, answer: answer::list },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}",
        name: "transfer",
        summary: "Returns a transfer",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the transfer", "Transfer"), Answer::problem(404, "no such transfer")],
        handler: Handler { access: RouteAccess::Authenticated, answer: answer::one },
    },
    Route {
        method: "PATCH",
        path: "/api/v1/transfers/{id}",
        name: "change",
        summary: "Changes the limit or the streams of a transfer; pauses, resumes or cancels it",
        query: &[],
        body: Some("Change"),
        answers: &[
            Answer::json(202, "the transfer is ending", "Transfer"),
            Answer::json(200, "the changed transfer", "Transfer"),
            Answer::problem(409, "the transfer has ended"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: answer::change },
    },
    Route {
        method: "DELETE",
        path: "/api/v1/transfers/{id}",
        name: "cancel",
        summary: "Cancels a transfer; data that has arrived stays. A transfer that has ended does not change",
        query: &[],
        body: None,
        answers: &[
            Answer::json(200, "the transfer has ended", "Transfer"),
            Answer::json(202, "the transfer is ending", "Transfer"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: answer::cancel },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}/receipt",
        name: "receipt",
        summary: "Returns the receipt of a transfer that has ended",
        query: &[],
        body: None,
        answers: &[
            Answer::json(200, "the receipt", "Receipt"),
            Answer::problem(404, "the transfer ended before it began"),
            Answer::problem(409, "the transfer has not ended"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: answer::receipt },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}/files",
        name: "files",
        summary: "Lists the finished files of a transfer whose order names files; kept for a while after the transfer has ended",
        query: &[
            ("after", "`next` of the previous page"),
            ("limit", "the most files of the page; default: 1000, at most 10000"),
        ],
        body: None,
        answers: &[Answer::json(200, "files in the order in which they ended", "FileResults")],
        handler: Handler { access: RouteAccess::Authenticated, answer: answer::files },
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers/{id}/events",
        name: "transferEvents",
        summary: "Streams the events of one transfer until it has ended; `Last-Event-ID` continues an earlier stream",
        query: &[],
        body: None,
        answers: &[
            Answer::events(200, "server-sent events, each a Transfer"),
            Answer::any(204, "the transfer has ended, and the client has received its last event"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: events::of_one },
    },
    Route {
        method: "GET",
        path: "/api/v1/events",
        name: "events",
        summary: "Streams the events of all transfers of the principal; `Last-Event-ID` continues an earlier stream",
        query: &[],
        body: None,
        answers: &[
            Answer::events(200, "server-sent events, each a Transfer"),
            Answer::problem(503, "too many event streams are open"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: events::of_all },
    },
    Route {
        method: "POST",
        path: "/api/v1/probes",
        name: "createProbe",
        summary: "Orders a test from this node to another node; the same order sent again returns the same test",
        query: &[],
        body: Some("ProbeOrder"),
        answers: &[
            Answer::json(201, "a new test", "Probe"),
            Answer::json(200, "the test that this order created earlier", "Probe"),
            Answer::problem(409, "the id belongs to another order"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: probes::create },
    },
    Route {
        method: "GET",
        path: "/api/v1/probes",
        name: "listProbes",
        summary: "Lists the principal's tests, a page at a time, oldest first, without reports",
        query: &[
            ("state", "only entries in this state"),
            ("after", "only entries after this id: `next` of the previous page"),
            ("limit", "the most entries of the page; default: 1000, at most 10000"),
        ],
        body: None,
        answers: &[Answer::json(200, "a page", "Probes")],
        handler: Handler { access: RouteAccess::Authenticated, answer: probes::list },
    },
    Route {
        method: "GET",
        path: "/api/v1/probes/{id}",
        name: "probe",
        summary: "Returns a test, with its report once it is done; a restart of the node forgets tests",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the test", "Probe"), Answer::problem(404, "no such test")],
        handler: Handler { access: RouteAccess::Authenticated, answer: probes::one },
    },
    Route {
        method: "DELETE",
        path: "/api/v1/probes/{id}",
        name: "cancelProbe",
        summary: "Cancels a test; a test that has ended does not change",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the test has ended", "Probe"), Answer::json(202, "the test is ending", "Probe")],
        handler: Handler { access: RouteAccess::Authenticated, answer: probes::cancel },
    },
    Route {
        method: "POST",
        path: "/api/v1/tape/stage",
        name: "stage",
        summary: "Stages files from tape to disk (WLCG Tape REST API, version 1)",
        query: &[],
        body: Some("TapeStage"),
        answers: &[
            Answer::json(201, "the id of the staging request", "TapeRequest"),
            Answer::problem(413, "too many files"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: tape::stage },
    },
    Route {
        method: "GET",
        path: "/api/v1/tape/stage/{id}",
        name: "stageProgress",
        summary: "Returns the progress of a staging request, file by file",
        query: &[],
        body: None,
        answers: &[
            Answer::json(200, "the state of each file", "TapeProgress"),
            Answer::problem(404, "no such staging request"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: tape::progress },
    },
    Route {
        method: "DELETE",
        path: "/api/v1/tape/stage/{id}",
        name: "removeStage",
        summary: "Removes a staging request: no more files are staged, and staged files need not stay on disk",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "the request is removed"), Answer::problem(404, "no such staging request")],
        handler: Handler { access: RouteAccess::Authenticated, answer: tape::remove },
    },
    Route {
        method: "POST",
        path: "/api/v1/tape/stage/{id}/cancel",
        name: "cancelStage",
        summary: "Cancels the staging of some files of a request",
        query: &[],
        body: Some("TapePaths"),
        answers: &[
            Answer::any(200, "the files will not be staged"),
            Answer::problem(400, "a path is not in the request; nothing was changed"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: tape::cancel },
    },
    Route {
        method: "POST",
        path: "/api/v1/tape/release/{id}",
        name: "release",
        summary: "Releases files of a request: they need not stay on disk any longer",
        query: &[],
        body: Some("TapePaths"),
        answers: &[
            Answer::any(200, "the files are released"),
            Answer::problem(400, "a path is not in the request; nothing was changed"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: tape::release },
    },
    Route {
        method: "POST",
        path: "/api/v1/tape/archiveinfo",
        name: "archiveInfo",
        summary: "Returns where files are: on disk, on tape, or on both",
        query: &[],
        body: Some("TapePaths"),
        answers: &[Answer::json(200, "the locality of each path", "TapeLocalities")],
        handler: Handler { access: RouteAccess::Authenticated, answer: tape::archive_info },
    },
    Route {
        method: "POST",
        path: "/api/v1/schedules",
        name: "createSchedule",
        summary: "Creates a schedule: a test that the node repeats until it is removed. The same schedule sent again is one schedule",
        query: &[],
        body: Some("Schedule"),
        answers: &[
            Answer::json(201, "a new schedule", "ScheduleStatus"),
            Answer::json(200, "the schedule that was created earlier", "ScheduleStatus"),
            Answer::problem(409, "the id belongs to another schedule"),
            Answer::problem(503, "the limit on schedules is reached"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: schedules::create },
    },
    Route {
        method: "GET",
        path: "/api/v1/schedules",
        name: "listSchedules",
        summary: "Lists the principal's schedules",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "all schedules of the principal", "Schedules")],
        handler: Handler { access: RouteAccess::Authenticated, answer: schedules::list },
    },
    Route {
        method: "GET",
        path: "/api/v1/schedules/{id}",
        name: "schedule",
        summary: "Returns a schedule",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the schedule", "ScheduleStatus"), Answer::problem(404, "no such schedule")],
        handler: Handler { access: RouteAccess::Authenticated, answer: schedules::one },
    },
    Route {
        method: "DELETE",
        path: "/api/v1/schedules/{id}",
        name: "removeSchedule",
        summary: "Removes a schedule; its measurements stay until newer ones need their room",
        query: &[],
        body: None,
        answers: &[
            Answer::json(200, "the removed schedule", "ScheduleStatus"),
            Answer::problem(404, "no such schedule"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: schedules::remove },
    },
    Route {
        method: "GET",
        path: "/api/v1/measurements",
        name: "measurements",
        summary: "Lists the measurements of the principal's schedules, oldest first",
        query: &[
            ("after", "only measurements after this number: `next` of the previous answer"),
            ("limit", "the most measurements of the answer; default: 5000, at most 5000"),
            ("wait_s", "how long to wait for the first measurement, seconds; default: 0, at most 120"),
        ],
        body: None,
        answers: &[
            Answer::json(200, "measurements, and the number to continue from", "Measurements"),
            Answer::problem(503, "too many clients are waiting"),
        ],
        handler: Handler { access: RouteAccess::Authenticated, answer: schedules::measurements },
    },
    Route {
        method: "GET",
        path: "/api/v1/srr",
        name: "storage",
        summary: "Reports total and used storage to the WLCG (Storage Resource Reporting 4.2)",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "a storage report")],
        handler: Handler { access: RouteAccess::Monitoring, answer: wlcg::srr },
    },
    Route {
        method: "GET",
        path: "/api/v1/site-network",
        name: "network",
        summary: "Returns the rates of the host's interfaces for the WLCG's site network monitoring",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "rates of the interfaces, bytes per second")],
        handler: Handler { access: RouteAccess::Monitoring, answer: wlcg::network },
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
