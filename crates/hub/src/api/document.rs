//! The document of the API (OpenAPI 3.1), made of the table of routes and of the public types. `docs/openapi-hub.json` is what it was when it
//! was committed; a test holds the two together.

use model::v1::hub::{
    Audit, AuditFindings, AuditOrder, Audits, BadReplica, Collaboration, Community, Data, DataAccess, DataAccesses,
    DataChange, DataHistory, DataList, DataMerged, DataNames, DataRemoval, DataWhere, Download, DownloadOrder,
    Endpoint, FileReplicasList, Files, Folder, Job, JobChange, JobEvent, JobOrder, Jobs, Link, NewDataList, NotPlaced,
    NotPromised, Offer, Queues, Quotas, Removables, Rule, RuleChange, RuleOrder, RuleWhy, Rules, Scope, ScopeOrder,
    Scopes, Shares, Site, Stopped, StorageUses, Subscription, SubscriptionOrder, Subscriptions, Webhook, WebhookOrder,
    Webhooks, WhoAmI, Why,
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
    fn add<T: ToSchema>(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.push((T::name().into_owned(), <T as PartialSchema>::schema()));
        T::schemas(all);
    }
    let mut all = Vec::new();
    add::<JobOrder>(&mut all);
    add::<JobChange>(&mut all);
    add::<Job>(&mut all);
    add::<Jobs>(&mut all);
    add::<Files>(&mut all);
    add::<JobEvent>(&mut all);
    add::<Why>(&mut all);
    add::<Offer>(&mut all);
    add::<NotPromised>(&mut all);
    add::<Folder>(&mut all);
    add::<DownloadOrder>(&mut all);
    add::<Download>(&mut all);
    add::<Queues>(&mut all);
    add::<Shares>(&mut all);
    add::<WhoAmI>(&mut all);
    add::<Collaboration>(&mut all);
    add::<Site>(&mut all);
    add::<Endpoint>(&mut all);
    add::<Link>(&mut all);
    add::<Community>(&mut all);
    add::<Stopped>(&mut all);
    add::<NewDataList>(&mut all);
    add::<Data>(&mut all);
    add::<DataList>(&mut all);
    add::<DataMerged>(&mut all);
    add::<DataAccess>(&mut all);
    add::<DataAccesses>(&mut all);
    add::<DataChange>(&mut all);
    add::<DataNames>(&mut all);
    add::<DataWhere>(&mut all);
    add::<DataHistory>(&mut all);
    add::<FileReplicasList>(&mut all);
    add::<BadReplica>(&mut all);
    add::<DataRemoval>(&mut all);
    add::<Removables>(&mut all);
    add::<Scope>(&mut all);
    add::<Scopes>(&mut all);
    add::<ScopeOrder>(&mut all);
    add::<RuleOrder>(&mut all);
    add::<RuleChange>(&mut all);
    add::<Rule>(&mut all);
    add::<Rules>(&mut all);
    add::<RuleWhy>(&mut all);
    add::<NotPlaced>(&mut all);
    add::<SubscriptionOrder>(&mut all);
    add::<Subscription>(&mut all);
    add::<Subscriptions>(&mut all);
    add::<WebhookOrder>(&mut all);
    add::<Webhook>(&mut all);
    add::<Webhooks>(&mut all);
    add::<AuditOrder>(&mut all);
    add::<Audit>(&mut all);
    add::<Audits>(&mut all);
    add::<AuditFindings>(&mut all);
    add::<StorageUses>(&mut all);
    add::<Quotas>(&mut all);
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
