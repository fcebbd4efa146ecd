//! The OpenAPI document (3.1) of an API, made from its table of routes and the schemas of its types.

use serde_json::{Map, Value, json};

use crate::routes::{PROBLEM, Route, Security};

/// The description of an API from which its document is made.
#[derive(Debug)]
pub struct Api<H> {
    /// Its title.
    pub title: &'static str,
    /// Its purpose.
    pub description: &'static str,
    /// The schemas of its types, by name.
    pub schemas: Map<String, Value>,
    /// The schema of a parameter of a query, by the parameter's name.
    pub parameter: fn(&str) -> Value,
    /// Whether a route needs a credential, by its handler.
    pub security: fn(&H) -> Security,
    /// The most bytes of a body.
    pub body_bytes_max: usize,
}

/// Makes the document, with its keys in alphabetical order.
pub fn document<H>(api: Api<H>, routes: &[Route<H>]) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation(&api, route);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": api.title,
            "version": "1",
            "description": api.description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": api.schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "an access key, a token or a macaroon"},
                "basic": {"type": "http", "scheme": "basic", "description": "an access key or a token as the password"},
            },
        },
    });
    // Without this the order depends on features of serde_json that other crates of the build may enable.
    document.sort_all_objects();
    document
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn operation<H>(api: &Api<H>, route: &Route<H>) -> Value {
    let mut operation = json!({"operationId": route.name, "summary": route.summary, "responses": responses(route)});
    let parameters = parameters(api, route);
    if !parameters.is_empty() {
        operation["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = route.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": {crate::routes::JSON: {"schema": reference(body)}},
            "description": format!("at most {} bytes; unknown fields are refused", api.body_bytes_max),
        });
    }
    operation["security"] = match (api.security)(&route.handler) {
        Security::Public => json!([]),
        Security::Optional => json!([{}, {"bearer": []}, {"basic": []}]),
        Security::Required => json!([{"bearer": []}, {"basic": []}]),
    };
    operation
}

fn parameters<H>(api: &Api<H>, route: &Route<H>) -> Vec<Value> {
    let mut parameters = Vec::new();
    if route.path.contains("{id}") {
        let schema = (api.parameter)("id");
        parameters.push(json!({"name": "id", "in": "path", "required": true, "schema": schema}));
    }
    for (name, means) in route.query {
        let schema = (api.parameter)(name);
        parameters.push(json!({"name": name, "in": "query", "description": means, "schema": schema}));
    }
    if route.answers.iter().any(|answer| answer.media == crate::routes::EVENTS) {
        parameters.push(json!({"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}));
    }
    parameters
}

fn responses<H>(route: &Route<H>) -> Map<String, Value> {
    let mut responses = Map::new();
    for answer in route.answers {
        let mut response = json!({"description": answer.means});
        if answer.status != 204 {
            let schema = answer.schema.map_or(json!({}), reference);
            response["content"] = json!({answer.media: {"schema": schema}});
        }
        responses.insert(answer.status.to_string(), response);
    }
    let problem = json!({"description": "a refusal as a problem document (RFC 9457)",
                         "content": {PROBLEM: {"schema": reference("Problem")}}});
    responses.insert("default".into(), problem);
    responses
}
