//! The order that a node gets for a claim.

use auth::AccessKey;
use model::Expected;
use model::v1::node::{Credentials, Options, Order, OrderFile};

use super::locators::ends;
use crate::database::claims::{Claim, ClaimedFile};
use crate::servers::fingerprint;
use crate::topology::Topology;

/// How long a node keeps a limit that the hub does not repeat, seconds. So a hub that is gone does not slow a transfer for ever.
pub(super) const LIMIT_HOLDS_S: u64 = 300;

/// The order for the node that carries a claim. `limit` is in bytes per second.
pub(super) fn order(topology: &Topology, claim: &Claim, limit: f64) -> Result<Order, String> {
    let file = claim.files.first().ok_or("a transfer without files")?;
    let (source, target) = ends(topology, &claim.carrier, file);
    let is_source = source.starts_with('/');
    let mut order = Order::new(claim.id, source, target);
    let options = file.options();
    let has_expectation = |file: &ClaimedFile| file.expected() != Expected::default();
    // Only an order that lists its files can give size and checksum of each; the size of a tree is a guess.
    if !options.recursive && (claim.files.len() > 1 || has_expectation(file)) {
        let one = |file: &ClaimedFile| {
            let (source, target) = ends(topology, &claim.carrier, file);
            OrderFile { source, target, bytes: file.expected().bytes, checksum: file.checksum.clone() }
        };
        order.files = claim.files.iter().map(one).collect();
        (order.source, order.target) = (Vec::new(), String::new());
    }
    order.options = Options {
        recursive: options.recursive,
        // If a file has a checksum, the node compares an existing target by its digest.
        sync: file.checksum.is_none().then(|| "mtime".to_owned()),
        no_overwrite: !file.overwrites(),
        durable: options.durable,
        ..Options::default()
    };
    order.limit_bit_s = bits(limit);
    order.limit_for_s = Some(LIMIT_HOLDS_S);
    order.scitag = options.scitag;
    order.retry_for_s = Some(120);
    let remote = if is_source { &file.target } else { &file.source };
    let token = if is_source { &file.tokens.target } else { &file.tokens.source };
    let described =
        topology.endpoint(remote).and_then(|name| topology.described_endpoint(&name).cloned()).unwrap_or_default();
    order.node = fingerprint(&described)?.map(|node| node.to_string());
    order.credentials = non_empty(token).or(described.key).map(|key| match key.parse::<AccessKey>() {
        Ok(_) => Credentials { key: Some(key), ..Credentials::default() },
        Err(_) => Credentials { token: Some(key), ..Credentials::default() },
    });
    Ok(order)
}

/// Whether one transfer can move both files: they have the same options, and their sources and targets are in the same export or on the
/// same server.
pub fn can_share_transfer(first: &ClaimedFile, other: &ClaimedFile) -> bool {
    let has_query_or_fragment =
        |file: &ClaimedFile| [&file.source, &file.target].iter().any(|url| url.contains(['?', '#']));
    first.options == other.options
        && first.tokens == other.tokens
        && first.overwrites() == other.overwrites()
        && !first.options().recursive
        && !has_query_or_fragment(first)
        && !has_query_or_fragment(other)
        && first.checksum.is_some() == other.checksum.is_some()
        && root(&first.source) == root(&other.source)
        && root(&first.target) == root(&other.target)
}

/// `SCHEME://HOST/FIRST`: an export of a node, the first directory of a server, a bucket.
fn root(url: &str) -> &str {
    let path = url.find("://").map_or(0, |at| at + 3);
    let slash = |from: usize| url[from..].find('/').map(|at| from + at + 1);
    slash(path).and_then(slash).map_or(url, |end| &url[..end])
}

/// A token, unless it is empty.
pub(super) fn non_empty(token: &str) -> Option<String> {
    (!token.is_empty()).then(|| token.to_owned())
}

/// A rate in bytes per second as a limit in bit/s.
pub(super) fn bits(rate: f64) -> u64 {
    // 0 means no limit. A paused transfer gets 8 kbit/s, so that its connection stays open.
    if rate.is_finite() { ((rate * 8.0) as u64).max(8_000) } else { 0 }
}
