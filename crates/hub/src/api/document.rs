//! The document of the API (OpenAPI 3.1), made from the table of routes and the public types. A test compares it with the committed
//! `docs/openapi-hub.json`.

use model::v1::exercise::{ExerciseBoard, ExerciseBoards, ExerciseProgress, ExerciseStop};
use model::v1::hub::{
    Audit, AuditFindings, AuditOrder, Audits, BadReplica, Collaboration, Community, Data, DataAccess, DataAccesses,
    DataChange, DataHistory, DataList, DataMerged, DataNames, DataRemoval, DataWhere, Deletion, Deletions, Download,
    Endpoint, Estimate, FileReplicasList, FileUrl, Files, Folder, HubActions, Job, JobChange, JobEvent, JobOrder,
    JobTransfers, Jobs, Link, LinkMark, NewDataList, NotPlaced, NotPromised, Offer, PlanTwin, Queues, Quotas,
    Removables, RenameOrder, Repeat, RepeatOrder, Repeats, Rule, RuleChange, RuleOrder, RuleWhy, Rules, Scope,
    ScopeOrder, Scopes, ShareLink, ShareLinkOrder, ShareLinks, Shared, SharedQuery, Shares, SignInProviders, Site,
    SiteAnswers, SiteCatalogue, SiteQuestions, SiteRound, Stopped, StorageUses, Subscription, SubscriptionOrder,
    Subscriptions, Webhook, WebhookOrder, Webhooks, WhatIf, WhatIfAnswer, WhoAmI, Why,
};
use model::v1::node::{Health, Problem};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use web::openapi::{self, Api};
use web::routes::{Route, Security};

use super::Handler;
use crate::limits;

/// The types of the document, by name.
fn schemas() -> Map<String, Value> {
    let mut all = Vec::new();
    add_queue(&mut all);
    add_catalogue(&mut all);
    add::<Health>(&mut all);
    add::<Problem>(&mut all);
    let mut named = Map::new();
    for (name, schema) in all {
        named.insert(name, serde_json::to_value(schema).unwrap_or_default());
    }
    named.insert("Whys".into(), json!({"type": "array", "items": {"$ref": "#/components/schemas/Why"}}));
    named.insert("NewReplicas".into(), json!({"type": "array", "items": {"$ref": "#/components/schemas/NewReplica"}}));
    named.insert("Index".into(), json!({"type": "object"}));
    named
}

type Schemas = Vec<(String, RefOr<Schema>)>;

fn add<T: ToSchema>(all: &mut Schemas) {
    all.push((T::name().into_owned(), <T as PartialSchema>::schema()));
    T::schemas(all);
}

/// Adds the types of jobs, of the collaboration's description, and of folders.
fn add_queue(all: &mut Schemas) {
    add::<JobOrder>(all);
    add::<JobChange>(all);
    add::<Job>(all);
    add::<Jobs>(all);
    add::<JobTransfers>(all);
    add::<Files>(all);
    add::<JobEvent>(all);
    add::<Why>(all);
    add::<Offer>(all);
    add::<PlanTwin>(all);
    add::<SiteQuestions>(all);
    add::<SiteAnswers>(all);
    add::<SiteCatalogue>(all);
    add::<SiteRound>(all);
    add::<WhatIf>(all);
    add::<WhatIfAnswer>(all);
    add::<NotPromised>(all);
    add::<Folder>(all);
    add::<FileUrl>(all);
    add::<Download>(all);
    add::<RenameOrder>(all);
    add::<Deletion>(all);
    add::<Deletions>(all);
    add::<ShareLinkOrder>(all);
    add::<ShareLink>(all);
    add::<ShareLinks>(all);
    add::<SharedQuery>(all);
    add::<Shared>(all);
    add::<HubActions>(all);
    add::<Estimate>(all);
    add::<RepeatOrder>(all);
    add::<Repeat>(all);
    add::<Repeats>(all);
    add::<ExerciseProgress>(all);
    add::<ExerciseStop>(all);
    add::<ExerciseBoard>(all);
    add::<ExerciseBoards>(all);
    add::<Queues>(all);
    add::<Shares>(all);
    add::<WhoAmI>(all);
    add::<SignInProviders>(all);
    add::<Collaboration>(all);
    add::<Site>(all);
    add::<Endpoint>(all);
    add::<Link>(all);
    add::<LinkMark>(all);
    add::<Community>(all);
    add::<Stopped>(all);
}

/// Adds the types of names, rules, subscriptions and audits.
fn add_catalogue(all: &mut Schemas) {
    add::<NewDataList>(all);
    add::<Data>(all);
    add::<DataList>(all);
    add::<DataMerged>(all);
    add::<DataAccess>(all);
    add::<DataAccesses>(all);
    add::<DataChange>(all);
    add::<DataNames>(all);
    add::<DataWhere>(all);
    add::<DataHistory>(all);
    add::<FileReplicasList>(all);
    add::<BadReplica>(all);
    add::<DataRemoval>(all);
    add::<Removables>(all);
    add::<Scope>(all);
    add::<Scopes>(all);
    add::<ScopeOrder>(all);
    add::<RuleOrder>(all);
    add::<RuleChange>(all);
    add::<Rule>(all);
    add::<Rules>(all);
    add::<RuleWhy>(all);
    add::<NotPlaced>(all);
    add::<SubscriptionOrder>(all);
    add::<Subscription>(all);
    add::<Subscriptions>(all);
    add::<WebhookOrder>(all);
    add::<Webhook>(all);
    add::<Webhooks>(all);
    add::<AuditOrder>(all);
    add::<Audit>(all);
    add::<Audits>(all);
    add::<AuditFindings>(all);
    add::<StorageUses>(all);
    add::<Quotas>(all);
}

fn parameter(name: &str) -> Value {
    match name {
        "limit" | "before" | "after" => json!({"type": "integer", "minimum": 0}),
        _ => json!({"type": "string"}),
    }
}

fn security(handler: &Handler) -> Security {
    if handler.role.is_some() { Security::Required } else { Security::Public }
}

/// The document of these routes.
pub(super) fn document(routes: &[Route<Handler>]) -> Value {
    let api = Api {
        title: "Longhaul hub API",
        description: "What a collaboration's hub does: jobs in a queue that shares links in bytes, and a catalogue of data with rules for its copies. docs/hub.md and docs/data.md have examples.",
        schemas: schemas(),
        parameter,
        security,
        body_bytes_max: limits::BODY_BYTES_MAX,
    };
    openapi::document(api, routes)
}
