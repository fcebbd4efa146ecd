//! The table of routes of the hub's API: method and path, the required role, and the function that answers.

use std::sync::LazyLock;

use model::v1::hub::Role;
use model::v1::node::Health;
use serde_json::{Value, json};
use web::routes::{Answer, Route};

use super::document::document;
use super::{ApiRequest, ApiResult, Handler, collaboration, events, jobs, metrics, queues};

/// A handler: the function that answers, and the role that it requires.
macro_rules! handler {
    ($role:expr, $answer:path) => {
        Handler { role: $role, answer: |request| Box::pin($answer(request)) }
    };
}

mod catalogue;
mod portal;

/// A route that reads.
const fn get(
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str)],
    answers: &'static [Answer],
    handler: Handler,
) -> Route<Handler> {
    Route { method: "GET", path, name, summary, query, body: None, answers, handler }
}

/// A route that changes something.
const fn change(
    method: &'static str,
    path: &'static str,
    name: &'static str,
    summary: &'static str,
    body: Option<&'static str>,
    answers: &'static [Answer],
    handler: Handler,
) -> Route<Handler> {
    Route { method, path, name, summary, query: &[], body, answers, handler }
}

/// All routes.
pub(super) static ROUTES: LazyLock<Vec<Route<Handler>>> =
    LazyLock::new(|| [QUEUE, portal::ROUTES, catalogue::ROUTES].concat());

/// The routes of the queue and of the collaboration's description.
const QUEUE: &[Route<Handler>] = &[
    Route {
        method: "GET",
        path: "/api/v1",
        name: "index",
        summary: "The routes of this API",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the routes, each with its summary", "Index")],
        handler: handler!(None, index),
    },
    Route {
        method: "GET",
        path: "/api/v1/openapi.json",
        name: "openapi",
        summary: "This document",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "an OpenAPI document")],
        handler: handler!(None, openapi),
    },
    Route {
        method: "GET",
        path: "/api/v1/health",
        name: "health",
        summary: "The health of the hub; no credential is needed",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the hub is healthy", "Health")],
        handler: handler!(None, health),
    },
    Route {
        method: "GET",
        path: "/metrics",
        name: "metrics",
        summary: "Numbers for monitoring, as OpenMetrics text",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "OpenMetrics text")],
        handler: handler!(Some(Role::Operator), metrics::metrics),
    },
    Route {
        method: "GET",
        path: "/api/v1/whoami",
        name: "whoami",
        summary: "The name and role of the client at the hub",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the name, the role, the community", "WhoAmI")],
        handler: handler!(Some(Role::User), jobs::whoami),
    },
    Route {
        method: "POST",
        path: "/api/v1/jobs",
        name: "submit",
        summary: "Submits a job; the same order twice is one job",
        query: &[],
        body: Some("JobOrder"),
        answers: &[
            Answer::json(201, "it is queued", "Job"),
            Answer::json(200, "it was there before", "Job"),
            Answer::problem(409, "the id is another job's, or the deadline cannot be promised"),
        ],
        handler: handler!(Some(Role::User), jobs::submit),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs",
        name: "list_jobs",
        summary: "A page of jobs, newest first",
        query: &[
            ("state", "`unended`, or `all`"),
            ("owner", "only those of this owner"),
            ("community", "only those of this community"),
            ("before", "the `next` of the page before"),
            ("limit", "how many"),
        ],
        body: None,
        answers: &[Answer::json(200, "a page", "Jobs")],
        handler: handler!(Some(Role::User), jobs::list),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}",
        name: "job",
        summary: "A job",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the job", "Job")],
        handler: handler!(Some(Role::User), jobs::show),
    },
    Route {
        method: "PATCH",
        path: "/api/v1/jobs/{id}",
        name: "change_job",
        summary: "Changes a job",
        query: &[],
        body: Some("JobChange"),
        answers: &[
            Answer::json(200, "as it is now", "Job"),
            Answer::json(202, "it is ending", "Job"),
            Answer::problem(409, "it has ended"),
        ],
        handler: handler!(Some(Role::User), jobs::change),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/jobs/{id}",
        name: "cancel_job",
        summary: "Cancels a job; files that have arrived stay",
        query: &[],
        body: None,
        answers: &[Answer::json(202, "it is ending", "Job"), Answer::problem(409, "it has ended")],
        handler: handler!(Some(Role::User), jobs::cancel),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}/files",
        name: "files",
        summary: "A page of the files of a job, in the order of the job",
        query: &[("after", "the `next` of the page before"), ("limit", "how many")],
        body: None,
        answers: &[Answer::json(200, "a page", "Files")],
        handler: handler!(Some(Role::User), jobs::files),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}/transfers",
        name: "jobTransfers",
        summary: "The running transfers of the files of a job, with their rates",
        query: &[("limit", "how many")],
        body: None,
        answers: &[Answer::json(200, "the newest first", "JobTransfers")],
        handler: handler!(Some(Role::User), jobs::transfers),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}/why",
        name: "why",
        summary: "Why the waiting files of a job do not move",
        query: &[("after", "the number of a file: only those behind it"), ("limit", "how many")],
        body: None,
        answers: &[Answer::json(200, "an answer for each", "Whys")],
        handler: handler!(Some(Role::User), queues::why),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}/events",
        name: "job_events",
        summary: "The events of a job, from the first one on",
        query: &[],
        body: None,
        answers: &[Answer::events(200, "server-sent events of `JobEvent`")],
        handler: handler!(Some(Role::User), events::of_one),
    },
    Route {
        method: "GET",
        path: "/api/v1/events",
        name: "events",
        summary: "The events of all jobs that the client may see, from now on",
        query: &[],
        body: None,
        answers: &[Answer::events(200, "server-sent events of `JobEvent`")],
        handler: handler!(Some(Role::User), events::of_all),
    },
    Route {
        method: "GET",
        path: "/api/v1/queues",
        name: "queues",
        summary: "The queues with files, and the share of each",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the queues", "Queues")],
        handler: handler!(Some(Role::User), queues::list),
    },
    Route {
        method: "GET",
        path: "/api/v1/reservations",
        name: "reservations",
        summary: "The queues whose files are promised by a deadline, and how the promise stands",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the promises", "Queues")],
        handler: handler!(Some(Role::User), queues::reservations),
    },
    Route {
        method: "GET",
        path: "/api/v1/shares",
        name: "shares",
        summary: "The shared resources, and how much of them is used",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the resources", "Shares")],
        handler: handler!(Some(Role::User), queues::shares),
    },
    Route {
        method: "GET",
        path: "/api/v1/collaboration",
        name: "collaboration",
        summary: "The description of the collaboration",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the collaboration", "Collaboration")],
        handler: handler!(Some(Role::User), collaboration::show),
    },
    Route {
        method: "PUT",
        path: "/api/v1/collaboration",
        name: "replace_collaboration",
        summary: "Replaces the description of the collaboration; an endpoint without a key keeps its old one",
        query: &[],
        body: Some("Collaboration"),
        answers: &[Answer::json(200, "as it is now", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::replace),
    },
    Route {
        method: "GET",
        path: "/api/v1/sites/{id}",
        name: "site",
        summary: "A site",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "as it is described", "Site")],
        handler: handler!(Some(Role::User), collaboration::site),
    },
    Route {
        method: "PUT",
        path: "/api/v1/sites/{id}",
        name: "put_site",
        summary: "Describes a site",
        query: &[],
        body: Some("Site"),
        answers: &[Answer::json(200, "as it is now", "Site")],
        handler: handler!(Some(Role::Admin), collaboration::put_site),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/sites/{id}",
        name: "remove_site",
        summary: "Removes a site",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "what is left", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::remove_site),
    },
    Route {
        method: "GET",
        path: "/api/v1/endpoints/{id}",
        name: "endpoint",
        summary: "An endpoint",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "as it is described", "Endpoint")],
        handler: handler!(Some(Role::User), collaboration::endpoint),
    },
    Route {
        method: "GET",
        path: "/api/v1/endpoints/{id}/host",
        name: "endpointHost",
        summary: "The audit of the host of an endpoint, if its node makes one (`longhaul serve --audit`)",
        query: &[],
        body: None,
        answers: &[
            Answer::any(200, "the host, and the findings of the audit"),
            Answer::problem(404, "the node does not audit its host"),
        ],
        handler: handler!(Some(Role::Operator), collaboration::host),
    },
    Route {
        method: "PUT",
        path: "/api/v1/endpoints/{id}",
        name: "put_endpoint",
        summary: "Describes an endpoint",
        query: &[],
        body: Some("Endpoint"),
        answers: &[Answer::json(200, "as it is now", "Endpoint")],
        handler: handler!(Some(Role::Admin), collaboration::put_endpoint),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/endpoints/{id}",
        name: "remove_endpoint",
        summary: "Removes an endpoint",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "what is left", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::remove_endpoint),
    },
    Route {
        method: "GET",
        path: "/api/v1/links/{id}",
        name: "link",
        summary: "A link",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "as it is described", "Link")],
        handler: handler!(Some(Role::User), collaboration::link),
    },
    Route {
        method: "PUT",
        path: "/api/v1/links/{id}",
        name: "put_link",
        summary: "Describes a link",
        query: &[],
        body: Some("Link"),
        answers: &[Answer::json(200, "as it is now", "Link")],
        handler: handler!(Some(Role::Admin), collaboration::put_link),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/links/{id}",
        name: "remove_link",
        summary: "Removes a link",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "what is left", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::remove_link),
    },
    Route {
        method: "GET",
        path: "/api/v1/communities/{id}",
        name: "community",
        summary: "A community",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "as it is described", "Community")],
        handler: handler!(Some(Role::User), collaboration::community),
    },
    Route {
        method: "PUT",
        path: "/api/v1/communities/{id}",
        name: "put_community",
        summary: "Describes a community",
        query: &[],
        body: Some("Community"),
        answers: &[Answer::json(200, "as it is now", "Community")],
        handler: handler!(Some(Role::Admin), collaboration::put_community),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/communities/{id}",
        name: "remove_community",
        summary: "Removes a community",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "what is left", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::remove_community),
    },
    Route {
        method: "PUT",
        path: "/api/v1/marks/{id}",
        name: "set_mark",
        summary: "Sets the high-water mark of a link; the scheduler applies it in its next round",
        query: &[],
        body: Some("LinkMark"),
        answers: &[Answer::json(200, "as it is now", "Link")],
        handler: handler!(Some(Role::Operator), collaboration::set_mark),
    },
    Route {
        method: "PUT",
        path: "/api/v1/stops/{id}",
        name: "stop",
        summary: "Stops new transfers for `all`, `site:NAME`, `endpoint:NAME`, `link:NAME` or `community:NAME`",
        query: &[],
        body: Some("Stopped"),
        answers: &[Answer::json(200, "as it is now", "Collaboration")],
        handler: handler!(Some(Role::Operator), collaboration::stop),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/stops/{id}",
        name: "start",
        summary: "Ends a stop",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "as it is now", "Collaboration")],
        handler: handler!(Some(Role::Operator), collaboration::start),
    },
];

/// GET /api/v1.
async fn index(_: ApiRequest) -> ApiResult {
    static INDEX: LazyLock<Value> = LazyLock::new(|| {
        let question =
            |route: &Route<Handler>| json!({"method": route.method, "path": route.path, "summary": route.summary});
        json!({
            "software": concat!("longhaul/", env!("CARGO_PKG_VERSION")),
            "document": "/api/v1/openapi.json",
            "questions": ROUTES.iter().map(question).collect::<Vec<_>>(),
        })
    });
    super::json(200, &*INDEX)
}

/// GET /api/v1/openapi.json.
async fn openapi(_: ApiRequest) -> ApiResult {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| document(&ROUTES));
    super::json(200, &*DOCUMENT)
}

/// GET /api/v1/health.
async fn health(_: ApiRequest) -> ApiResult {
    super::json(200, &Health { status: "ok".to_owned() })
}
