//! Orders over the native protocol (`Request::Carry` with a [`DelegationOrder`]): pushes from this node to another one with a
//! one-time key of that node. This module translates them into the orders of the API.

use auth::{AccessKey, Fingerprint};
use model::Locator;
use model::id::Uuid;
use model::locator::NodePlace;
use model::spec::Delete;
use model::v1::node::{Credentials, Filter, Options, Order};
use wire::frame::DelegationOrder;

/// A place of this node, in the form of orders.
fn here(place: &NodePlace) -> String {
    format!("/{place}")
}

/// The order of the API that means the same.
pub(super) fn order(delegation: &DelegationOrder) -> Order {
    let native = &delegation.order;
    let place = native.places.first().cloned().unwrap_or(NodePlace::Exports);
    // A target in memory is not a directory.
    let into = native.options.into && matches!(place, NodePlace::Path { .. });
    let target = Locator::Node { at: delegation.to.clone(), place, into };
    let key = AccessKey::new(delegation.key.id, delegation.key.secret, Fingerprint(delegation.node)).expose_text();
    Order {
        files: Vec::new(),
        id: Uuid::from_bytes(native.job),
        source: delegation.sources.iter().map(here).collect(),
        target: target.to_string(),
        options: options(&native.options),
        limit_bit_s: native.steer.limit_bit_s,
        limit_for_s: None,
        streams: native.steer.streams,
        paused: native.steer.paused,
        congestion: native.congestion.clone(),
        scitag: None,
        retry_for_s: Some(delegation.retry_for_s),
        plain: delegation.plain,
        node: None,
        credentials: Some(Credentials { key: Some(key), ..Credentials::default() }),
    }
}

fn options(native: &model::spec::Options) -> Options {
    Options {
        recursive: native.recursive,
        copy_links: native.copy_links,
        sync: Some(native.sync.word().to_owned()),
        no_overwrite: native.no_overwrite,
        durable: native.durable,
        checksums: Some(native.checksums.iter().map(|algorithm| algorithm.name().to_owned()).collect()),
        delete: native.delete.is_allowed(),
        max_delete: match native.delete {
            Delete::AtMost(max) => Some(max),
            _ => None,
        },
        force: native.delete == Delete::All,
        dry_run: native.dry_run,
        owner: native.owner,
        xattrs: native.xattrs,
        wait_space_s: Some(native.wait_space.as_secs()),
        filters: native
            .filters
            .iter()
            .map(|filter| Filter { include: filter.include, pattern: filter.pattern.clone() })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::{OtherEnd, live_settings, read};
    use super::*;
    use model::spec::{self, LiveSettings};
    use model::v1::Change;
    use model::{Algorithm, HostPort, RelPath};
    use std::time::Duration;
    use wire::frame::{Direction, KeyProof, Open};

    fn delegation(into: bool, delete: Delete, target: NodePlace) -> DelegationOrder {
        let options = spec::Options {
            recursive: true,
            into,
            sync: spec::Sync::Digest,
            delete,
            checksums: vec![Algorithm::Crc32c],
            wait_space: Duration::from_secs(7),
            filters: vec![spec::Filter { include: false, pattern: "*.tmp".into() }],
            ..spec::Options::default()
        };
        DelegationOrder {
            order: Open {
                job: [9; 16],
                direction: Direction::Push,
                places: vec![target],
                options,
                congestion: Some("reno".into()),
                steer: LiveSettings { limit_bit_s: 5, streams: 3, paused: true },
                listed: false,
            },
            sources: vec![NodePlace::Path { export: "d".into(), path: RelPath::parse(b"a \xff%?/b").unwrap() }],
            to: HostPort { host: "::1".into(), port: 99 },
            node: [3; 32],
            key: KeyProof { id: [1; 8], secret: [2; 32] },
            plain: true,
            retry_for_s: 11,
        }
    }

    #[test]
    fn a_native_order_means_the_same_as_one_over_http() {
        let place = NodePlace::Path { export: "e".into(), path: RelPath::parse(b"x y").unwrap() };
        let (careful, at_most) = (Delete::Careful, Delete::AtMost(9));
        let orders = [(false, careful, place.clone()), (true, at_most, place), (false, Delete::All, NodePlace::Null)];
        for (into, delete, place) in orders {
            let native = delegation(into, delete, place.clone());
            let order = order(&native);
            let plan = read(&order).unwrap();
            assert_eq!(plan.other_end, OtherEnd::Push { to: native.to.clone(), place });
            assert_eq!((&plan.here, &plan.options), (&native.sources, &native.order.options));
            assert_eq!((plan.node, plan.retry_for), (Some(Fingerprint([3; 32])), Duration::from_secs(11)));
            assert_eq!((plan.keys[0].id, plan.keys[0].expose_secret()), ([1; 8], &[2; 32]));
            assert_eq!(live_settings(&order, &Change::default()), native.order.steer);
            assert_eq!((order.plain, order.congestion.as_deref()), (true, Some("reno")));
        }
    }
}
