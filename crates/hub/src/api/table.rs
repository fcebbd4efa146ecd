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
        summary: "Lists the routes of this API",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the routes, each with a summary", "Index")],
        handler: handler!(None, index),
    },
    Route {
        method: "GET",
        path: "/api/v1/openapi.json",
        name: "openapi",
        summary: "Returns this OpenAPI document",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "an OpenAPI document")],
        handler: handler!(None, openapi),
    },
    Route {
        method: "GET",
        path: "/api/v1/health",
        name: "health",
        summary: "Returns the health of the hub; no credential is needed",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the hub is healthy", "Health")],
        handler: handler!(None, health),
    },
    Route {
        method: "GET",
        path: "/metrics",
        name: "metrics",
        summary: "Returns the metrics of the hub as OpenMetrics text",
        query: &[],
        body: None,
        answers: &[Answer::any(200, "OpenMetrics text")],
        handler: handler!(Some(Role::Operator), metrics::metrics),
    },
    Route {
        method: "GET",
        path: "/api/v1/whoami",
        name: "whoami",
        summary: "Returns the name, role and community of the client",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the name, the role and the community", "WhoAmI")],
        handler: handler!(Some(Role::User), jobs::whoami),
    },
    Route {
        method: "POST",
        path: "/api/v1/jobs",
        name: "submit",
        summary: "Submits a job; submitting the same order again returns the same job",
        query: &[],
        body: Some("JobOrder"),
        answers: &[
            Answer::json(201, "the job is queued", "Job"),
            Answer::json(200, "the job was submitted before", "Job"),
            Answer::problem(409, "another job has this id, or the hub cannot promise the deadline"),
        ],
        handler: handler!(Some(Role::User), jobs::submit),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs",
        name: "list_jobs",
        summary: "Lists jobs, newest first",
        query: &[
            ("state", "`unended`: only jobs that have not ended; `all` (default): all jobs"),
            ("owner", "only jobs of this owner"),
            ("community", "only jobs of this community"),
            ("before", "the `next` of the previous page"),
            ("limit", "the number of jobs, 1 to 10000 (default: 100)"),
        ],
        body: None,
        answers: &[Answer::json(200, "a page of jobs", "Jobs")],
        handler: handler!(Some(Role::User), jobs::list),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}",
        name: "job",
        summary: "Returns a job",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the job", "Job")],
        handler: handler!(Some(Role::User), jobs::show),
    },
    Route {
        method: "PATCH",
        path: "/api/v1/jobs/{id}",
        name: "change_job",
        summary: "Changes, pauses or resumes a job",
        query: &[],
        body: Some("JobChange"),
        answers: &[
            Answer::json(200, "the changed job", "Job"),
            Answer::json(202, "the job is ending", "Job"),
            Answer::problem(409, "the job has already ended"),
        ],
        handler: handler!(Some(Role::User), jobs::change),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/jobs/{id}",
        name: "cancel_job",
        summary: "Cancels a job; files that have arrived are kept",
        query: &[],
        body: None,
        answers: &[Answer::json(202, "the job is ending", "Job"), Answer::problem(409, "the job has already ended")],
        handler: handler!(Some(Role::User), jobs::cancel),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}/files",
        name: "files",
        summary: "Lists the files of a job, in the order in which they were submitted",
        query: &[
            ("after", "the `next` of the previous page"),
            ("limit", "the number of files, 1 to 10000 (default: 1000)"),
        ],
        body: None,
        answers: &[Answer::json(200, "a page of files", "Files")],
        handler: handler!(Some(Role::User), jobs::files),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}/transfers",
        name: "jobTransfers",
        summary: "Lists the running transfers of a job, with their rates",
        query: &[("limit", "the number of transfers, 1 to 10000 (default: 100)")],
        body: None,
        answers: &[Answer::json(200, "the transfers, newest first", "JobTransfers")],
        handler: handler!(Some(Role::User), jobs::transfers),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}/why",
        name: "why",
        summary: "Explains why the waiting files of a job do not move",
        query: &[
            ("after", "the number of a file: only files after it"),
            ("limit", "the number of files, 1 to 10000 (default: 100)"),
        ],
        body: None,
        answers: &[Answer::json(200, "the reason for each waiting file", "Whys")],
        handler: handler!(Some(Role::User), queues::why),
    },
    Route {
        method: "GET",
        path: "/api/v1/jobs/{id}/events",
        name: "job_events",
        summary: "Streams the events of a job, from its first event on",
        query: &[],
        body: None,
        answers: &[Answer::events(200, "server-sent events, each a `JobEvent`")],
        handler: handler!(Some(Role::User), events::of_one),
    },
    Route {
        method: "GET",
        path: "/api/v1/events",
        name: "events",
        summary: "Streams new events of all jobs that the client may see",
        query: &[],
        body: None,
        answers: &[Answer::events(200, "server-sent events, each a `JobEvent`")],
        handler: handler!(Some(Role::User), events::of_all),
    },
    Route {
        method: "GET",
        path: "/api/v1/queues",
        name: "queues",
        summary: "Lists the queues that have files, and the share of each",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the queues", "Queues")],
        handler: handler!(Some(Role::User), queues::list),
    },
    Route {
        method: "GET",
        path: "/api/v1/reservations",
        name: "reservations",
        summary: "Lists the queues with a promised deadline, and whether each deadline will be met",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the queues with a promised deadline", "Queues")],
        handler: handler!(Some(Role::User), queues::reservations),
    },
    Route {
        method: "GET",
        path: "/api/v1/shares",
        name: "shares",
        summary: "Lists links, endpoints and communities that have a limit, and how much of each is in use",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the shared resources", "Shares")],
        handler: handler!(Some(Role::User), queues::shares),
    },
    Route {
        method: "GET",
        path: "/api/v1/collaboration",
        name: "collaboration",
        summary: "Returns the description of the collaboration, without keys",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the collaboration", "Collaboration")],
        handler: handler!(Some(Role::User), collaboration::show),
    },
    Route {
        method: "PUT",
        path: "/api/v1/collaboration",
        name: "replace_collaboration",
        summary: "Replaces the description of the collaboration; an endpoint that is sent without a key keeps its stored key",
        query: &[],
        body: Some("Collaboration"),
        answers: &[Answer::json(200, "the changed collaboration", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::replace),
    },
    Route {
        method: "GET",
        path: "/api/v1/sites/{id}",
        name: "site",
        summary: "Returns the description of a site",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the site", "Site")],
        handler: handler!(Some(Role::User), collaboration::site),
    },
    Route {
        method: "PUT",
        path: "/api/v1/sites/{id}",
        name: "put_site",
        summary: "Adds a site, or replaces its description",
        query: &[],
        body: Some("Site"),
        answers: &[Answer::json(200, "the changed site", "Site")],
        handler: handler!(Some(Role::Admin), collaboration::put_site),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/sites/{id}",
        name: "remove_site",
        summary: "Removes a site",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the changed collaboration", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::remove_site),
    },
    Route {
        method: "GET",
        path: "/api/v1/endpoints/{id}",
        name: "endpoint",
        summary: "Returns the description of an endpoint",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the endpoint", "Endpoint")],
        handler: handler!(Some(Role::User), collaboration::endpoint),
    },
    Route {
        method: "GET",
        path: "/api/v1/endpoints/{id}/host",
        name: "endpointHost",
        summary: "Returns the audit of the host of an endpoint, if its node makes one (`longhaul serve --audit`)",
        query: &[],
        body: None,
        answers: &[
            Answer::any(200, "the host and the findings of its audit"),
            Answer::problem(404, "the node does not audit its host"),
        ],
        handler: handler!(Some(Role::Operator), collaboration::host),
    },
    Route {
        method: "PUT",
        path: "/api/v1/endpoints/{id}",
        name: "put_endpoint",
        summary: "Adds an endpoint, or replaces its description",
        query: &[],
        body: Some("Endpoint"),
        answers: &[Answer::json(200, "the changed endpoint", "Endpoint")],
        handler: handler!(Some(Role::Admin), collaboration::put_endpoint),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/endpoints/{id}",
        name: "remove_endpoint",
        summary: "Removes an endpoint",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the changed collaboration", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::remove_endpoint),
    },
    Route {
        method: "GET",
        path: "/api/v1/links/{id}",
        name: "link",
        summary: "Returns the description of a link",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the link", "Link")],
        handler: handler!(Some(Role::User), collaboration::link),
    },
    Route {
        method: "PUT",
        path: "/api/v1/links/{id}",
        name: "put_link",
        summary: "Adds a link, or replaces its description",
        query: &[],
        body: Some("Link"),
        answers: &[Answer::json(200, "the changed link", "Link")],
        handler: handler!(Some(Role::Admin), collaboration::put_link),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/links/{id}",
        name: "remove_link",
        summary: "Removes a link",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the changed collaboration", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::remove_link),
    },
    Route {
        method: "GET",
        path: "/api/v1/communities/{id}",
        name: "community",
        summary: "Returns the description of a community",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the community", "Community")],
        handler: handler!(Some(Role::User), collaboration::community),
    },
    Route {
        method: "PUT",
        path: "/api/v1/communities/{id}",
        name: "put_community",
        summary: "Adds a community, or replaces its description",
        query: &[],
        body: Some("Community"),
        answers: &[Answer::json(200, "the changed community", "Community")],
        handler: handler!(Some(Role::Admin), collaboration::put_community),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/communities/{id}",
        name: "remove_community",
        summary: "Removes a community",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the changed collaboration", "Collaboration")],
        handler: handler!(Some(Role::Admin), collaboration::remove_community),
    },
    Route {
        method: "PUT",
        path: "/api/v1/marks/{id}",
        name: "set_mark",
        summary: "Sets the high-water mark of a link; the scheduler applies it within a second",
        query: &[],
        body: Some("LinkMark"),
        answers: &[Answer::json(200, "the changed link", "Link")],
        handler: handler!(Some(Role::Operator), collaboration::set_mark),
    },
    Route {
        method: "PUT",
        path: "/api/v1/stops/{id}",
        name: "stop",
        summary: "Stops new transfers of `all`, `site:NAME`, `endpoint:NAME`, `link:NAME` or `community:NAME`",
        query: &[],
        body: Some("Stopped"),
        answers: &[Answer::json(200, "the changed collaboration", "Collaboration")],
        handler: handler!(Some(Role::Operator), collaboration::stop),
    },
    Route {
        method: "DELETE",
        path: "/api/v1/stops/{id}",
        name: "start",
        summary: "Ends a stop: new transfers may start again",
        query: &[],
        body: None,
        answers: &[Answer::json(200, "the changed collaboration", "Collaboration")],
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
