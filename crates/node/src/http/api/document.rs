//! The document of the API (OpenAPI 3.1), made of the table of routes and of the public types. `docs/openapi.json` is what it was
//! when it was committed; a test holds the two together.

use model::v1::Receipt;
use model::v1::flows::Flows;
use model::v1::node::{Capabilities, Health, Order, Probe, ProbeOrder, Probes, Problem};
use model::v1::{Change, Transfer, Transfers};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::{BODY_BYTES_MAX, EVENTS, JSON, PROBLEM, ROUTES, Route, Whom};

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
    add::<Health>(&mut all);
    add::<Capabilities>(&mut all);
    add::<Problem>(&mut all);
    add::<Receipt>(&mut all);
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
    named.insert(
        "Host".into(),
        json!({"type": "object", "required": ["host", "findings"], "properties": {
            "host": {"type": "object", "description": "whose audit it is, as `longhaul tune audit --json` says it"},
            "findings": {"type": "array", "items": {"type": "object"}}}}),
    );
    named
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    if route.path.contains("{id}") {
        let schema = json!({"type": "string", "format": "uuid"});
        parameters.push(json!({"name": "id", "in": "path", "required": true, "schema": schema}));
    }
    for (name, means) in route.query {
        let schema = match *name {
            "limit" => json!({"type": "integer", "minimum": 1}),
            "rate_bit_s" => json!({"type": "integer", "minimum": 1}),
            "rtt_s" => json!({"type": "number", "exclusiveMinimum": 0}),
            "after" => json!({"type": "string", "format": "uuid"}),
            _ => json!({"type": "string"}),
        };
        parameters.push(json!({"name": name, "in": "query", "description": means, "schema": schema}));
    }
    if route.path.ends_with("events") {
        let schema = json!({"type": "string"});
        parameters.push(json!({"name": "Last-Event-ID", "in": "header", "schema": schema}));
    }
    let mut answers = Map::new();
    for told in route.answers {
        let kind = match told.kind {
            Some("Problem") => PROBLEM,
            None if told.status == 200 && route.path.ends_with("events") => EVENTS,
            _ => JSON,
        };
        let mut answer = json!({"description": told.means});
        if told.status != 204 {
            let schema = told.kind.map_or(json!({}), reference);
            answer["content"] = json!({kind: {"schema": schema}});
        }
        answers.insert(told.status.to_string(), answer);
    }
    let problem = json!({"description": "a no, and why", "content": {PROBLEM: {"schema": reference("Problem")}}});
    answers.insert("default".into(), problem);
    let mut operation = json!({"operationId": route.name, "summary": route.summary, "responses": answers});
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = route.body {
        operation["requestBody"] = json!({"required": true, "content": {JSON: {"schema": reference(body)}},
            "description": format!("at most {BODY_BYTES_MAX} bytes; unknown fields are refused")});
    }
    operation["security"] = match route.whom {
        Whom::Anybody => json!([]),
        Whom::Guests | Whom::Watchers => json!([{}, {"bearer": []}, {"basic": []}]),
        Whom::Named => json!([{"bearer": []}, {"basic": []}]),
    };
    operation
}

/// The document.
fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation(route);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Longhaul node API",
            "version": "1",
            "description": "What one node does: transfers between its exports and other nodes or servers, tests from it to other nodes. docs/api.md has examples.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "an access key, a token or a macaroon"},
                "basic": {"type": "http", "scheme": "basic", "description": "an access key or a token as the password"},
            },
        },
    });
    // Whether maps keep the order of their making is up to what else is built along.
    document.sort_all_objects();
    document
}

/// The document as it is sent, and committed.
pub(super) fn text() -> String {
    let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_committed_document_is_this_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        if std::env::var_os("LONGHAUL_WRITE_OPENAPI").is_some() {
            std::fs::write(&path, text()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        let remedy = "write it anew: LONGHAUL_WRITE_OPENAPI=1 cargo test -p node the_committed_document";
        assert!(committed == text(), "docs/openapi.json is not what the types and the routes say; {remedy}");
    }

    /// Every reference leads somewhere, and every type that is spoken of is described.
    #[test]
    fn references_lead_somewhere() {
        let document = document();
        let known = document["components"]["schemas"].as_object().unwrap();
        let text = text();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(known.contains_key(name), "{name}");
        }
        for name in
            ROUTES.iter().flat_map(|route| route.body.into_iter().chain(route.answers.iter().filter_map(|t| t.kind)))
        {
            assert!(known.contains_key(name), "{name}");
        }
        assert!(known.len() > 15, "{:?}", known.keys());
    }

    /// What is said of a type is what serde writes of it.
    #[test]
    fn types_are_described_as_they_are_written() {
        let document = document();
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
