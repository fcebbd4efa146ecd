//! The routes of the catalogue: names, rules, storage. A name in a path has its slashes as `%2F`.

use model::v1::hub::Role;
use web::routes::{Answer, Route};

use crate::api::{Handler, data, rules};

const PAGE: (&str, &str) = ("limit", "how many");
const AFTER: (&str, &str) = ("after", "the `next` of the page before");

/// A route for users that reads.
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

const DATA: &[Answer] =
    &[Answer::json(200, "the name as it is now", "Data"), Answer::problem(404, "it is not in the catalogue")];
const FILES: &[Answer] = &[Answer::json(200, "a page", "FileReplicasList")];
const RULE: &[Answer] = &[Answer::json(200, "the rule", "Rule"), Answer::problem(404, "there is none")];
const USER: Option<Role> = Some(Role::User);

/// All of them.
pub(super) const ROUTES: &[Route<Handler>] = &[
    change(
        "POST",
        "/api/v1/data",
        "enter_data",
        "Enters files, datasets and containers, with the copies that there are, and puts them into one; all of them, or none",
        Some("NewDataList"),
        &[
            Answer::json(201, "they are in the catalogue", "DataList"),
            Answer::json(200, "they were there before", "DataList"),
            Answer::problem(409, "one of them is there, and something else"),
        ],
        handler!(USER, data::enter),
    ),
    get(
        "/api/v1/data",
        "list_data",
        "Names of a scope, in their order",
        &[
            ("scope", "which scope"),
            ("like", "only names like this, in which `*` stands for any characters"),
            ("kind", "only `file`, `dataset` or `container`"),
            ("meta.WORD", "only those of which this is said"),
            ("after_name", "the `next` of the page before"),
            PAGE,
        ],
        &[Answer::json(200, "a page", "DataList")],
        handler!(USER, data::list),
    ),
    get(
        "/api/v1/data/events",
        "all_data_events",
        "What happens to all names, from now on",
        &[],
        &[Answer::events(200, "server-sent events of `DataEvent`")],
        handler!(USER, data::events_of_all),
    ),
    get(
        "/api/v1/data/{id}/events",
        "data_events",
        "What happens to it, from its beginning: workflows start at `complete`",
        &[],
        &[Answer::events(200, "server-sent events of `DataEvent`")],
        handler!(USER, data::events_of_one),
    ),
    get("/api/v1/data/{id}", "data", "A name of the catalogue", &[], DATA, handler!(USER, data::show)),
    change(
        "PATCH",
        "/api/v1/data/{id}",
        "change_data",
        "Closes it, changes what is said of it, or says when it ends",
        Some("DataChange"),
        DATA,
        handler!(USER, data::change),
    ),
    Route {
        method: "DELETE",
        path: "/api/v1/data/{id}",
        name: "remove_data",
        summary: "Ends it a day from now, with the files that it alone has; until then `expires` can be changed",
        query: &[("at_once", "`true`: now, and for good")],
        body: None,
        answers: &[
            Answer::json(202, "it is ending", "Data"),
            Answer::problem(409, "others have rules of it, or it only grows"),
        ],
        handler: handler!(USER, data::remove),
    },
    get(
        "/api/v1/data/{id}/removal",
        "removal",
        "What would go with it",
        &[],
        &[Answer::json(200, "files, bytes, copies", "DataRemoval")],
        handler!(USER, data::removal),
    ),
    change(
        "POST",
        "/api/v1/data/{id}/replicas/bad",
        "declare_bad",
        "Says that a copy of a file is not what it should be: where a rule holds it, it is made anew from another one",
        Some("BadReplica"),
        FILES,
        handler!(USER, data::declare_bad),
    ),
    get(
        "/api/v1/data/{id}/contents",
        "contents",
        "What a dataset or container contains itself",
        &[AFTER, PAGE],
        &[Answer::json(200, "a page", "DataList")],
        handler!(USER, data::contents),
    ),
    change(
        "POST",
        "/api/v1/data/{id}/contents",
        "attach",
        "Puts names into a dataset or container",
        Some("DataNames"),
        DATA,
        handler!(USER, data::attach),
    ),
    change(
        "DELETE",
        "/api/v1/data/{id}/contents",
        "detach",
        "Takes names out of a dataset or container",
        Some("DataNames"),
        DATA,
        handler!(USER, data::detach),
    ),
    get(
        "/api/v1/data/{id}/parents",
        "parents",
        "What contains it",
        &[],
        &[Answer::json(200, "datasets and containers", "DataList")],
        handler!(USER, data::parents),
    ),
    get(
        "/api/v1/data/{id}/files",
        "data_files",
        "The files that it has, however deep, with their checksums and copies",
        &[AFTER, PAGE],
        FILES,
        handler!(USER, data::files),
    ),
    change(
        "POST",
        "/api/v1/data/{id}/replicas",
        "add_replicas",
        "Takes note of copies of a file that are there",
        Some("NewReplicas"),
        FILES,
        handler!(USER, data::add_replicas),
    ),
    get(
        "/api/v1/data/{id}/where",
        "whereabouts",
        "How much of it is where, and how much is on its way",
        &[],
        &[Answer::json(200, "by endpoint", "DataWhere")],
        handler!(USER, data::whereabouts),
    ),
    get(
        "/api/v1/data/{id}/history",
        "history",
        "What happened to it, oldest first",
        &[AFTER, PAGE],
        &[Answer::json(200, "a page", "DataHistory")],
        handler!(USER, data::history),
    ),
    get(
        "/api/v1/scopes",
        "scopes",
        "The scopes, and whose they are",
        &[],
        &[Answer::json(200, "by name", "Scopes")],
        handler!(USER, data::scopes),
    ),
    change(
        "PUT",
        "/api/v1/scopes/{id}",
        "make_scope",
        "Makes a scope for an account; each user has `user.NAME` without",
        Some("ScopeOrder"),
        &[Answer::json(200, "it is there", "Scope"), Answer::problem(409, "it is another's")],
        handler!(Some(Role::Operator), data::make_scope),
    ),
    change(
        "POST",
        "/api/v1/rules",
        "make_rule",
        "Makes a rule: so many copies of a name at endpoints of an expression",
        Some("RuleOrder"),
        &[
            Answer::json(201, "it is in force", "Rule"),
            Answer {
                status: 409,
                means: "it cannot be fulfilled; what could be",
                schema: Some("NotPlaced"),
                media: web::routes::PROBLEM,
            },
        ],
        handler!(USER, rules::make),
    ),
    get(
        "/api/v1/rules",
        "rules",
        "Rules, newest first",
        &[
            ("name", "only those of this name"),
            ("account", "only those of this account"),
            ("before", "the `next` of the page before"),
            PAGE,
        ],
        &[Answer::json(200, "a page", "Rules")],
        handler!(USER, rules::list),
    ),
    get("/api/v1/rules/{id}", "rule", "A rule, and how far it is", &[], RULE, handler!(USER, rules::show)),
    get(
        "/api/v1/rules/{id}/why",
        "rule_why",
        "How far a rule is, how fast, when it is done, what is stuck and why",
        &[],
        &[Answer::json(200, "an answer", "RuleWhy")],
        handler!(USER, rules::why),
    ),
    change(
        "PATCH",
        "/api/v1/rules/{id}",
        "change_rule",
        "Changes a rule",
        Some("RuleChange"),
        RULE,
        handler!(USER, rules::change),
    ),
    change(
        "DELETE",
        "/api/v1/rules/{id}",
        "end_rule",
        "Ends a rule: what it alone holds may be deleted after a day",
        None,
        &[Answer::json(202, "it is ending", "Rule"), Answer::problem(404, "there is none")],
        handler!(USER, rules::end),
    ),
    get(
        "/api/v1/storage",
        "storage",
        "Endpoints with storage, and what is there",
        &[("expression", "only those that it means: `region=eu&tier=1`")],
        &[Answer::json(200, "by name", "StorageUses")],
        handler!(USER, rules::storage),
    ),
    get(
        "/api/v1/storage/{id}/removable",
        "removable",
        "Copies at an endpoint that would be deleted first where room is needed",
        &[PAGE],
        &[Answer::json(200, "copies that no rule holds, of which another one is left", "Removables")],
        handler!(USER, rules::removable),
    ),
    get(
        "/api/v1/lost",
        "lost",
        "Files of which nothing is available any more",
        &[PAGE],
        &[Answer::json(200, "the files", "DataList")],
        handler!(USER, data::lost),
    ),
    get(
        "/api/v1/quotas/{id}",
        "quotas",
        "What the rules of an account may hold",
        &[],
        &[Answer::json(200, "its quotas", "Quotas")],
        handler!(USER, rules::quotas),
    ),
    change(
        "PUT",
        "/api/v1/quotas/{id}",
        "set_quotas",
        "Replaces the quotas of an account",
        Some("Quotas"),
        &[Answer::json(200, "as they are now", "Quotas")],
        handler!(Some(Role::Operator), rules::set_quotas),
    ),
];
