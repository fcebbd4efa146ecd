//! The URLs of endpoints, in a normalised spelling.

use std::collections::BTreeMap;

use model::v1::hub::Collaboration;

use super::{TopologyError, wrong};

/// The prefixes of the URLs of all endpoints, each with its endpoint; the longer ones first.
pub(super) fn prefixes(described: &Collaboration) -> Result<Vec<(String, String)>, TopologyError> {
    let mut by_prefix: BTreeMap<String, String> = BTreeMap::new();
    for (name, endpoint) in &described.endpoints {
        for url in &endpoint.urls {
            let what = || format!("endpoint {name}");
            let prefix = normalised(url).ok_or_else(|| {
                wrong(
                    what(),
                    format!(
                        "{} is not a URL of an endpoint: lh://, https://, davs:// or s3://, and a host",
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

/// A URL with its scheme and host normalised, and without its query and fragment; `None` if it is not a URL of an endpoint.
pub(super) fn normalised(url: &str) -> Option<String> {
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

/// `SCHEME://HOST[:PORT]` of a normalised URL.
pub(super) fn authority(normal: &str) -> Option<&str> {
    let after = normal.find("://")? + 3;
    let end = normal[after..].find('/').map_or(normal.len(), |at| after + at);
    Some(&normal[..end])
}

/// Host, port and path of a URL, without its scheme: a server may serve several protocols on one port.
fn server_and_path(url: &str) -> Option<String> {
    let normal = normalised(url)?;
    let (scheme, rest) = normal.split_once("://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // The colons of an address in brackets do not begin a port.
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = match scheme {
        "lh" => model::DEFAULT_PORT,
        "http" => 80,
        _ => 443,
    };
    Some(if has_port { rest.to_owned() } else { format!("{host}:{port}{path}") })
}

/// Whether two directories are the same, or one lies within the other.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let both = server_and_path(one).zip(server_and_path(other));
    both.is_some_and(|(one, other)| is_below(&one, &other) || is_below(&other, &one))
}

/// Whether a URL is a prefix itself, or lies below it.
pub(super) fn is_below(url: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    url.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_directories_are_found_even_with_different_schemes() {
        for (one, other) in [
            ("davs://h/data", "davs://h/data/b"),
            ("https://h/data", "davs://H:443/data"),
            ("lh://h:8443/data/b", "davs://h:8443/data"),
            ("lh://[::1]:7411/", "lh://[::1]/data"),
        ] {
            assert!(overlap(one, other) && overlap(other, one), "{one} {other}");
        }
        for (one, other) in
            [("davs://h/data", "davs://h/database"), ("davs://h/a", "davs://i/a"), ("lh://h:1/a", "lh://h:2/a")]
        {
            assert!(!overlap(one, other) && !overlap(other, one), "{one} {other}");
        }
    }
}
