//! The committed document of the API, and its references.

use super::*;

#[test]
fn the_committed_document_is_this_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi-watch.json");
    let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("LONGHAUL_WRITE_OPENAPI").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == text,
        "LONGHAUL_WRITE_OPENAPI=1 cargo test -p watch --lib the_committed_document writes it anew"
    );
}

#[test]
fn every_referenced_schema_is_defined() {
    let document = document();
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}
