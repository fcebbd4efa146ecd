//! Chooses the carrier of a queue's files, and the bytes of one transfer.

use std::time::Duration;

use model::v1::hub::EndpointKind;

use crate::carriers::THIRD_PARTY_CARRIER;
use crate::database::queues::Queue;
use crate::topology::Topology;

/// About how long one transfer should take.
const BATCH: Duration = Duration::from_secs(30);
/// The bytes of one transfer if no rate bounds it.
const BATCH_BYTES_MAX: i64 = 64 << 30;

/// The carrier of a queue's files: the endpoint that is a node, the source first; otherwise a gateway of either endpoint; otherwise,
/// between two WebDAV servers, a third-party copy.
pub(super) fn carrier(topology: &Topology, queue: &Queue) -> Option<String> {
    let (source, target) = (&queue.key.source, &queue.key.target);
    let has_kind = |name: &String, kind| topology.kind(name) == kind;
    let node = [source, target].into_iter().find(|name| has_kind(name, EndpointKind::Node)).cloned();
    let gateway = |name: &String| topology.described_endpoint(name)?.gateway.clone();
    let both_webdav = has_kind(source, EndpointKind::Webdav) && has_kind(target, EndpointKind::Webdav);
    let third_party = || both_webdav.then(|| THIRD_PARTY_CARRIER.to_owned());
    node.or_else(|| gateway(source)).or_else(|| gateway(target)).or_else(third_party)
}

/// The bytes of one transfer: half a minute's worth, so that more urgent files that are queued meanwhile need not wait long. A transfer has
/// at least one file.
pub(super) fn batch_bytes(limit: f64) -> i64 {
    if limit.is_finite() { (limit * BATCH.as_secs_f64()) as i64 } else { BATCH_BYTES_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_a_node_is_the_carrier() {
        let toml = "[endpoint.dtn]\nurls = [\"lh://n\"]\n[endpoint.bucket]\nkind = \"s3\"\nurls = [\"s3://b\"]\ngateway = \"dtn\"";
        let topology = Topology::new(toml::from_str(toml).unwrap()).unwrap();
        let carrier_of = |source: &str, target: &str| {
            let key = crate::database::submissions::QueueKey {
                source: source.into(),
                target: target.into(),
                community: String::new(),
                activity: String::new(),
                owner: String::new(),
                priority: 3,
                deadline: 0,
                limited_job: 0,
            };
            let queue =
                Queue { id: 1, key, queued: 1, staging: 0, queued_bytes: 0, running: 0, running_bytes: 0, limit: None };
            carrier(&topology, &queue)
        };
        assert_eq!(carrier_of("dtn", "lh://other").as_deref(), Some("dtn"));
        assert_eq!(carrier_of("https://x", "dtn").as_deref(), Some("dtn"));
        assert_eq!(carrier_of("bucket", "https://x").as_deref(), Some("dtn"));
        assert_eq!(carrier_of("https://x", "https://y").as_deref(), Some(THIRD_PARTY_CARRIER));
        assert_eq!(carrier_of("s3://x", "https://y"), None);
    }
}
