//! docs/probe-json.md names every field that a result can have.

// Tests may unwrap: clippy.toml permits it in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

#[test]
fn every_field_of_a_result_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("../../docs/probe-json.md")).unwrap();
    let mut fields = 0;
    for entry in fs::read_dir(root.join("src/v1/probe")).unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in source.lines().filter_map(|line| line.strip_prefix("    pub ")) {
            let Some((name, _)) = line.split_once(": ").filter(|(name, _)| !name.contains(['(', ' '])) else {
                continue;
            };
            assert!(text.contains(&format!("| `{name}` |")), "docs/probe-json.md says nothing of {name}");
            fields += 1;
        }
    }
    assert!(fields > 200, "the fields are found: {fields}");
}
