//! URLs of endpoints, in one spelling.

use std::collections::BTreeMap;

use model::v1::hub::Collaboration;

use super::{TopologyError, wrong};

/// The prefixes of the URLs of all endpoints, and whose they are; longer ones first.
pub(super) fn prefixes(described: &Collaboration) -> Result<Vec<(String, String)>, TopologyError> {
    let mut by_prefix: BTreeMap<String, String> = BTreeMap::new();
    for (name, endpoint) in &described.endpoints {
        for url in &endpoint.urls {
            let what = || format!("endpoint {name}");
            let prefix = normal(url).ok_or_else(|| {
                wrong(
                    what(),
                    format!(
                        "{} is no URL of an endpoint: lh://, https://, davs:// or s3://, and a host",
                        web::target::redacted(url)
                    ),
                )
            })?;
            if let Some(other) = by_prefix.insert(prefix, name.clone()) {
                return Err(wrong(what(), format!("{} is a URL of {other} too", web::target::redacted(url))));
            }
        }
    }
    let mut prefixes: Vec<_> = by_prefix.into_iter().collect();
    prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    Ok(prefixes)
}

/// A URL with its scheme and host in one spelling, and without what stands behind a question mark; none where it is no URL of an
/// endpoint.
pub(super) fn normal(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (scheme, port) = match scheme.to_ascii_lowercase().as_str() {
        "lh" => ("lh", model::DEFAULT_PORT),
        "https" | "davs" => ("https", 443u16),
        "http" | "dav" => ("http", 80),
        "s3" => ("s3", 443),
        _ => return None,
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.to_ascii_lowercase();
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || "\\@".contains(c);
    if host.is_empty() || rest.contains(is_bad) || host.starts_with(':') {
        return None;
    }
    let default = format!(":{port}");
    let host = host.strip_suffix(&default).unwrap_or(&host);
    Some(format!("{scheme}://{host}{path}"))
}

/// `SCHEME://HOST[:PORT]` of a URL in one spelling.
pub(super) fn authority(normal: &str) -> Option<&str> {
    let after = normal.find("://")? + 3;
    let end = normal[after..].find('/').map_or(normal.len(), |at| after + at);
    Some(&normal[..end])
}

/// Whether a URL is that of a prefix, or lies below it.
pub(super) fn is_below(url: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    url.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
