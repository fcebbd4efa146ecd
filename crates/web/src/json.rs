//! Parses JSON from clients. Error texts name the place in the document and repeat no value, since a value may be a secret.

use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::Refused;

/// Parses a whole body; `what` names the expected document in error texts: "an order".
///
/// # Errors
/// The body is not JSON, or not of this type (400).
pub fn read<T: DeserializeOwned>(body: &[u8], what: &str) -> Result<T, Refused> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader);
    let value = value.and_then(|value| {
        let end = reader.end().map(|()| value);
        end.map_err(|error| serde_path_to_error::Error::new(serde_path_to_error::Track::new().path(), error))
    });
    value.map_err(|error| {
        let (at, error) = (error.path().to_string(), error.into_inner());
        let text = error.to_string();
        let names_a_field = ["unknown field", "missing field", "duplicate field"].iter().any(|s| text.starts_with(s));
        let why = match error.classify() {
            Category::Data if names_a_field => text,
            Category::Data => {
                format!("{at} has the wrong type, at line {}, column {}", error.line(), error.column())
            }
            _ => format!("it is not JSON at line {}, column {}", error.line(), error.column()),
        };
        Refused::new(400, format!("{what} cannot be read: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Example {
        #[allow(dead_code)]
        files: Vec<u32>,
    }

    #[test]
    fn errors_name_the_place_and_no_value() {
        for (body, reason) in [
            (
                r#"{"files": [1, "s3cret"]}"#,
                "an order cannot be read: files[1] has the wrong type, at line 1, column 22",
            ),
            (r#"{"file": []}"#, "an order cannot be read: unknown field `file`, expected `files` at line 1 column 7"),
            (r#"{"files": [1]"#, "an order cannot be read: it is not JSON at line 1, column 13"),
            (r#"{"files": []} x"#, "an order cannot be read: it is not JSON at line 1, column 15"),
        ] {
            let refused = read::<Example>(body.as_bytes(), "an order").unwrap_err();
            assert_eq!((refused.status, refused.reason.as_str()), (400, reason));
        }
        assert!(read::<Example>(br#"{"files": [1]}"#, "an order").is_ok());
    }
}
