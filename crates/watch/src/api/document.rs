//! The OpenAPI document (3.1) of the watch, made from the table of routes and the public types. A test compares it with the
//! committed `docs/openapi-watch.json`.

use model::v1::exercise::ExerciseOutcome;
use model::v1::node::Problem;
use model::v1::watch::{
    Acknowledgement, Alarm, Alarms, Annotation, Directory, Grid, History, Interfaces, Talkers, Why,
};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use web::openapi::{self, Api};
use web::routes::{Route, Security};

use super::{BODY_BYTES_MAX, Handler};

/// The types of the document, by name.
fn schemas() -> Map<String, Value> {
    fn add<T: ToSchema>(all: &mut Vec<(String, RefOr<Schema>)>) {
        all.push((T::name().into_owned(), <T as PartialSchema>::schema()));
        T::schemas(all);
    }
    let mut all = Vec::new();
    add::<Grid>(&mut all);
    add::<History>(&mut all);
    add::<Alarm>(&mut all);
    add::<Alarms>(&mut all);
    add::<Acknowledgement>(&mut all);
    add::<Annotation>(&mut all);
    add::<Directory>(&mut all);
    add::<ExerciseOutcome>(&mut all);
    add::<Interfaces>(&mut all);
    add::<Talkers>(&mut all);
    add::<Why>(&mut all);
    add::<Problem>(&mut all);
    let mut named: Map<String, Value> =
        all.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default())).collect();
    named.insert("Index".into(), json!({"type": "object"}));
    let key = json!({"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}});
    named.insert("DirectoryKey".into(), key);
    named
}

fn parameter(name: &str) -> Value {
    match name {
        "limit" | "rows" | "top" => json!({"type": "integer", "minimum": 1}),
        _ => json!({"type": "string"}),
    }
}

fn security(handler: &Handler) -> Security {
    if handler.role.is_some() { Security::Required } else { Security::Optional }
}

/// The document of these routes.
pub(super) fn document(routes: &[Route<Handler>]) -> Value {
    let api = Api {
        title: "Longhaul watch API",
        description: "Results of regular tests among many nodes: health of paths, expected rates, alarms. docs/watch.md has examples.",
        schemas: schemas(),
        parameter,
        security,
        body_bytes_max: BODY_BYTES_MAX,
    };
    openapi::document(api, routes)
}
