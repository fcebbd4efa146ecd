//! The document of the API (OpenAPI 3.1), made of the table of routes and of the public types. `docs/openapi-hub.json` is what it was when it
//! was committed; a test holds the two together.

use model::v1::hub::{
    Collaboration, Community, Endpoint, Files, Job, JobChange, JobEvent, JobOrder, Jobs, Link, Offer, Queues, Shares,
    Site, Stopped, WhoAmI, Why,
};
use model::v1::node::{Health, Problem};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use web::openapi::{self, Api};
use web::routes::Security;

use super::{Handler, table};
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
    add::<Queues>(&mut all);
    add::<Shares>(&mut all);
    add::<WhoAmI>(&mut all);
    add::<Collaboration>(&mut all);
    add::<Site>(&mut all);
    add::<Endpoint>(&mut all);
    add::<Link>(&mut all);
    add::<Community>(&mut all);
    add::<Stopped>(&mut all);
    add::<Health>(&mut all);
    add::<Problem>(&mut all);
    let mut named = Map::new();
    for (name, schema) in all {
        named.insert(name, serde_json::to_value(schema).unwrap_or_default());
    }
    named.insert("Whys".into(), json!({"type": "array", "items": {"$ref": "#/components/schemas/Why"}}));
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

/// The document.
pub fn document() -> Value {
    let api = Api {
        title: "Longhaul hub API",
        description: "What a collaboration's hub does: jobs in a queue that shares links in bytes. docs/hub.md has examples.",
        schemas: schemas(),
        parameter,
        security,
        body_bytes_max: limits::BODY_BYTES_MAX,
    };
    openapi::document(api, table::ROUTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_document_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi-hub.json");
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        if std::env::var_os("LONGHAUL_WRITE_OPENAPI").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            committed, text,
            "LONGHAUL_WRITE_OPENAPI=1 cargo test -p hub --lib the_committed_document writes it anew"
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
