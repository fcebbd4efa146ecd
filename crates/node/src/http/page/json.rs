//! A directory as JSON, for programs: one entry on each line, with the field names of `longhaul ls --json`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::RelPath;
use serde_json::{Map, Value, json};
use serve::Length;
use web::{Response, date};

use super::sort::ListingRow;
use crate::http::refused::Outcome;
use crate::http::request_context::RequestContext;
use crate::http::text::Text;

/// The media type in `Accept` and `Content-Type`.
const JSON: &str = "application/json";

/// Whether the client asks for JSON and not for a page.
pub(super) fn is_wanted(context: &RequestContext<'_>) -> bool {
    !super::is_for_people(context) && context.request().headers.all("accept").any(|kinds| kinds.contains(JSON))
}

fn entry(line: &ListingRow) -> Value {
    let mut entry = Map::new();
    entry.insert("path".into(), String::from_utf8_lossy(&line.name).into());
    if std::str::from_utf8(&line.name).is_err() {
        entry.insert("path_b64".into(), STANDARD.encode(&line.name).into());
    }
    entry.insert("kind".into(), line.kind.word().into());
    if let Some(size) = line.size {
        entry.insert("size".into(), size.into());
    }
    if let Some(modified) = line.modified {
        entry.insert("mtime".into(), date::rfc3339(modified).into());
    }
    Value::Object(entry)
}

/// Sends a directory as JSON, in the order of the store.
pub(super) fn send(
    context: &mut RequestContext<'_>,
    place: &RelPath,
    lines: &mut dyn Iterator<Item = ListingRow>,
) -> Outcome {
    let response = Response::new(200)
        .with("Content-Type", JSON)
        .with("X-Content-Type-Options", "nosniff")
        .with("Cache-Control", "no-store");
    let mut text = Text::begin(context.exchange, response, Length::Open)?;
    let head = format!("{{\"v\":1,\"path\":{},\"entries\":[", json!(format!("/{place}")));
    text.write(context.exchange, head.as_bytes())?;
    for (at, line) in lines.enumerate() {
        let comma = if at > 0 { "," } else { "" };
        text.write(context.exchange, format!("{comma}\n{}", entry(&line)).as_bytes())?;
    }
    text.write(context.exchange, b"\n]}\n")?;
    Ok(text.end(context.exchange)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Kind, Timestamp};

    #[test]
    fn a_name_that_is_not_text_is_listed_as_bytes() {
        let modified = Some(Timestamp { seconds: 0, nanos: 0 });
        let file = ListingRow { name: b"a\xff".to_vec(), kind: Kind::File, size: Some(7), modified };
        let text = entry(&file).to_string();
        assert_eq!(
            text,
            "{\"kind\":\"file\",\"mtime\":\"1970-01-01T00:00:00Z\",\"path\":\"a\u{fffd}\",\"path_b64\":\"Yf8=\",\"size\":7}"
        );
        let dir = ListingRow { name: b"d".to_vec(), kind: Kind::Dir, size: None, modified: None };
        assert_eq!(entry(&dir), json!({"path": "d", "kind": "dir"}));
    }
}
