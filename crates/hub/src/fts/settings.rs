//! Checks the fields of an FTS configuration: fields that the hub does not know are refused.

use serde_json::{Map, Value};
use web::Refused;

/// The name under which `GET /status/hosts` lists the hub.
pub(super) const HOST: &str = "longhaul";

/// The names of the fields of an object that are not known and not empty.
fn unknown(object: &Map<String, Value>, known: &[&str]) -> Vec<String> {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) => false,
    };
    let unknown = object.iter().filter(|(name, value)| !known.contains(&name.as_str()) && !is_empty(value));
    unknown.map(|(name, _)| name.clone()).collect()
}

/// Refuses an object with fields that the hub's description does not have.
pub(super) fn check_known(what: &str, object: &Map<String, Value>, known: &[&str]) -> Result<(), Refused> {
    let unknown = unknown(object, known);
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Refused::new(400, format!("{what}: the hub has no {}; it has {}", unknown.join(", "), known.join(", "))))
}
