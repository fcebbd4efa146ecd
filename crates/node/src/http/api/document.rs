//! The document of the API (OpenAPI 3.1), generated from the table of routes and the public types. A test compares it with the
//! committed `docs/openapi.json`.

use model::v1::Receipt;
use model::v1::flows::Flows;
use model::v1::node::{
    Capabilities, FileResults, Health, Measurements, Order, Probe, ProbeOrder, Probes, Problem, Schedule,
    ScheduleStatus, Schedules, ScratchChange, ScratchFiles, ScratchOrder, ScratchPlace,
};
use model::v1::{Change, Transfer, Transfers};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use web::openapi::{self, Api};
use web::routes::{Route, Security};

use super::{BODY_BYTES_MAX, Handler, RouteAccess};

/// The types of the document, by name.
fn schemas() -> Map<String, Value> {
    fn add<T: ToSchema>(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.push((T::name().into_owned(), <T as PartialSchema>::schema()));
        T::schemas(all);
    }
    let mut all = Vec::new();
    add::<Order>(&mut all);
    add::<Change>(&mut all);
    add::<Transfer>(&mut all);
    add::<Transfers>(&mut all);
    add::<ProbeOrder>(&mut all);
    add::<Probe>(&mut all);
    add::<Probes>(&mut all);
    add::<Schedule>(&mut all);
    add::<ScheduleStatus>(&mut all);
    add::<Schedules>(&mut all);
    add::<Measurements>(&mut all);
    add::<ScratchOrder>(&mut all);
    add::<ScratchChange>(&mut all);
    add::<ScratchFiles>(&mut all);
    add::<ScratchPlace>(&mut all);
    add::<Health>(&mut all);
    add::<Capabilities>(&mut all);
    add::<Problem>(&mut all);
    add::<Receipt>(&mut all);
    add::<FileResults>(&mut all);
    add::<Flows>(&mut all);
    let mut named = Map::new();
    for (name, schema) in all {
        named.insert(name, serde_json::to_value(schema).unwrap_or_default());
    }
    let question = json!({"type": "object", "required": ["method", "path", "summary"], "properties": {
        "method": {"type": "string"}, "path": {"type": "string"}, "summary": {"type": "string"}}});
    named.insert(
        "Index".into(),
        json!({"type": "object", "required": ["software", "document", "questions"], "properties": {
            "software": {"type": "string"}, "document": {"type": "string"},
            "questions": {"type": "array", "items": question}}}),
    );
    named.extend(tape_schemas());
    named.insert(
        "Host".into(),
        json!({"type": "object", "required": ["host", "findings"], "properties": {
            "host": {"type": "object", "description": "the host that was audited, as in `longhaul tune audit --json`"},
            "findings": {"type": "array", "items": {"type": "object"}}}}),
    );
    named
}

/// The documents of the tape REST API, as far as this node has them.
fn tape_schemas() -> [(String, Value); 5] {
    let text = || json!({"type": "string"});
    let array = |items: Value| json!({"type": "array", "items": items});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let file = object(json!({"path": text(), "diskLifetime": text()}));
    let staged = object(json!({
        "path": text(), "onDisk": {"type": "boolean"}, "error": text(), "startedAt": {"type": "integer"}, "finishedAt": {"type": "integer"},
        "state": {"type": "string", "enum": ["SUBMITTED", "STARTED", "CANCELLED", "FAILED", "COMPLETED"]}}));
    let progress = object(json!({
        "id": text(), "createdAt": {"type": "integer"}, "startedAt": {"type": "integer"}, "completedAt": {"type": "integer"},
        "files": array(staged)}));
    let locality = object(json!({"path": text(), "locality": text(), "error": text()}));
    [
        ("TapeStage".into(), object(json!({"files": array(file)}))),
        ("TapeRequest".into(), object(json!({"requestId": text()}))),
        ("TapeProgress".into(), progress),
        ("TapePaths".into(), object(json!({"paths": array(text())}))),
        ("TapeLocalities".into(), array(locality)),
    ]
}

/// The schema of a parameter of a query.
fn parameter(name: &str) -> Value {
    match name {
        "limit" | "rate_bit_s" => json!({"type": "integer", "minimum": 1}),
        "wait_s" => json!({"type": "number", "minimum": 0}),
        "rtt_s" => json!({"type": "number", "exclusiveMinimum": 0}),
        "id" | "after" => json!({"type": "string", "format": "uuid"}),
        _ => json!({"type": "string"}),
    }
}

/// Whether a route needs a credential.
fn security(handler: &Handler) -> Security {
    match handler.access {
        RouteAccess::Public => Security::Public,
        RouteAccess::Admitted | RouteAccess::Monitoring => Security::Optional,
        RouteAccess::Authenticated => Security::Required,
    }
}

/// The document.
fn document(routes: &[Route<Handler>]) -> Value {
    let api = Api {
        title: "Longhaul node API",
        description: "What one node does: transfers between its exports and other nodes or servers, tests from it to other nodes. docs/api.md has examples.",
        schemas: schemas(),
        parameter,
        security,
        body_bytes_max: BODY_BYTES_MAX,
    };
    openapi::document(api, routes)
}

/// The document as text, as it is sent and committed.
pub(super) fn text(routes: &[Route<Handler>]) -> String {
    let mut text = serde_json::to_string_pretty(&document(routes)).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::super::table::ROUTES;
    use super::*;
    use std::path::Path;

    #[test]
    fn the_committed_document_is_this_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        if std::env::var_os("LONGHAUL_WRITE_OPENAPI").is_some() {
            std::fs::write(&path, text(ROUTES)).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        let remedy = "write it anew: LONGHAUL_WRITE_OPENAPI=1 cargo test -p node the_committed_document";
        assert!(committed == text(ROUTES), "docs/openapi.json is not what the types and the routes say; {remedy}");
    }

    /// Every reference has its schema, and every type of a body or an answer is described.
    #[test]
    fn every_reference_has_a_schema() {
        let document = document(ROUTES);
        let known = document["components"]["schemas"].as_object().unwrap();
        let text = text(ROUTES);
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(known.contains_key(name), "{name}");
        }
        for name in ROUTES
            .iter()
            .flat_map(|route| route.body.into_iter().chain(route.answers.iter().filter_map(|answer| answer.schema)))
        {
            assert!(known.contains_key(name), "{name}");
        }
        assert!(known.len() > 15, "{:?}", known.keys());
    }

    /// The description of a type has the fields that serde writes.
    #[test]
    fn a_type_is_described_as_serde_writes_it() {
        let document = document(ROUTES);
        let written =
            serde_json::to_value(Transfer { error: Some("x".into()), exit: Some(1), ..Transfer::default() }).unwrap();
        let described = &document["components"]["schemas"]["Transfer"];
        for (name, _) in written.as_object().unwrap() {
            assert!(described["properties"].get(name).is_some(), "{name} is not described");
        }
        for name in described["required"].as_array().unwrap() {
            assert!(written.get(name.as_str().unwrap()).is_some(), "{name} is not always there");
        }
        assert_eq!(document["components"]["schemas"]["Order"]["additionalProperties"], false);
    }
}
