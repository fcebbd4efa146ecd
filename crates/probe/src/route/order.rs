//! The ordered tests of one direction: hops, parallel paths, MTU.
//!
//! The order may come from an untrusted client: all bounds are checked before anything is sent.

use std::net::UdpSocket;
use std::time::Duration;

use model::v1::probe::route::{Route, RouteOrder, RouterReply};

use super::echo::Token;
use super::{mtu, sweep, trace};
use crate::{Error, Result, Stop};

/// The plans of all parts.
struct Plans {
    trace: trace::Plan,
    sweep: sweep::Plan,
    mtu: Option<mtu::Plan>,
}

/// The longest time of a part.
const LASTS_MAX: Duration = Duration::from_secs(3_600);

impl Plans {
    fn of(order: &RouteOrder, sockets: usize) -> Result<Plans> {
        if sockets != usize::from(order.flows) {
            return Err(Error::Order(format!("a test of {} flows cannot be made with {sockets} sockets", order.flows)));
        }
        let seconds = |name: &str, value: f64, most: Duration| {
            let time = Duration::try_from_secs_f64(value).ok().filter(|time| *time <= most);
            time.ok_or_else(|| Error::Order(format!("{name} is up to {} s, not {value}", most.as_secs())))
        };
        let patience = seconds("the patience", order.patience_s, Duration::from_secs(60))?;
        let lasts = seconds("a part of a path test", order.lasts_s, LASTS_MAX)?;
        let RouteOrder { ttl_max, gap, queries, .. } = *order;
        let trace = trace::Plan { ttl_max, gap, queries, patience, lasts, ..trace::Plan::default() };
        trace.check()?;
        let sweep = sweep::Plan {
            trace: trace::Plan { queries: queries.min(sweep::Plan::default().trace.queries), ..trace },
            probes: order.probes,
            ..sweep::Plan::default()
        };
        sweep.check(sockets)?;
        let mtu_plan = |bytes_max| mtu::Plan { bytes_max, lasts, ..mtu::Plan::default() };
        let mtu = order.mtu_bytes_max.map(mtu_plan);
        mtu.as_ref().map(mtu::Plan::check).transpose()?;
        Ok(Plans { trace, sweep, mtu })
    }
}

/// Carries out an order, over as many connected sockets as it has flows. The hops and the MTU are those of the first flow.
///
/// # Errors
/// [`Error::Order`]: the order is out of bounds. [`Error::Host`]: a socket fails. [`Error::Interrupted`]: stopped. A silent far
/// end is a result.
pub fn explore(sockets: &[UdpSocket], token: &Token, order: &RouteOrder, stop: &Stop) -> Result<Route> {
    let plans = Plans::of(order, sockets.len())?;
    let [first, others @ ..] = sockets else { return Ok(Route::default()) };
    let path = trace::trace(first, token, &plans.trace, stop)?;
    let is_node =
        path.hops.last().is_some_and(|hop| hop.routers.iter().any(|router| router.said == RouterReply::Answered));
    let mtu = match plans.mtu.filter(|_| is_node).map(|plan| mtu::mtu(first, token, &plan, stop)) {
        Some(Ok(found)) => Some(found),
        // The far end answered the trace a moment ago. The test continues without an MTU.
        Some(Err(Error::Silent { .. })) | None => None,
        Some(Err(error)) => return Err(error),
    };
    let sweep = match others {
        [] => None,
        _ => Some(sweep::sweep(sockets, token, &plans.sweep, stop)?),
    };
    if stop.is_stopped() { Err(Error::Interrupted) } else { Ok(Route { path, mtu, sweep }) }
}

#[cfg(test)]
mod tests {
    use model::v1::probe::route::SuspectBy;

    use super::*;

    #[test]
    fn an_order_out_of_bounds_is_refused() {
        let good = RouteOrder::default();
        assert!(Plans::of(&good, 1).is_ok());
        let bad = [
            RouteOrder { ttl_max: 0, ..good.clone() },
            RouteOrder { ttl_max: 65, ..good.clone() },
            RouteOrder { gap: 0, ..good.clone() },
            RouteOrder { queries: 17, ..good.clone() },
            RouteOrder { patience_s: 61.0, ..good.clone() },
            RouteOrder { patience_s: 0.0, ..good.clone() },
            RouteOrder { patience_s: -1.0, ..good.clone() },
            RouteOrder { patience_s: f64::NAN, ..good.clone() },
            RouteOrder { lasts_s: f64::INFINITY, ..good.clone() },
            RouteOrder { probes: 10_001, ..good.clone() },
            RouteOrder { mtu_bytes_max: Some(575), ..good.clone() },
            RouteOrder { mtu_bytes_max: Some(u32::MAX), ..good.clone() },
            RouteOrder { flows: 2, ..good.clone() },
        ];
        for order in bad {
            assert!(matches!(Plans::of(&order, 1), Err(Error::Order(_))), "{order:?}");
        }
        assert!(Plans::of(&RouteOrder { flows: 65, ..good.clone() }, 65).is_err());
        assert!(Plans::of(&RouteOrder { flows: 0, ..good }, 0).is_err());
    }

    #[test]
    fn an_empty_order_is_the_default_one() {
        let order: RouteOrder = serde_json::from_str("{}").unwrap();
        assert_eq!(order, RouteOrder::default());
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<RouteOrder>(&text).unwrap(), order);
    }

    /// Over loopback to a node: one hop, the largest MTU to try, one path.
    #[test]
    fn a_node_on_loopback_is_explored() {
        let token = [3; 16];
        for host in ["127.0.0.1", "::1"] {
            let node = UdpSocket::bind((host, 0)).unwrap();
            let to = node.local_addr().unwrap();
            let flows: Vec<_> = (0..4).map(|_| super::super::open((to.ip(), 0).into(), to).unwrap()).collect();
            let stop = Stop::default();
            let order = RouteOrder { flows: 4, probes: 20, ..RouteOrder::default() };
            let route = std::thread::scope(|scope| {
                scope.spawn(|| super::super::echo::serve(&node, |its| *its == token, Duration::from_secs(60), &stop));
                let route = explore(&flows, &token, &order, &Stop::default());
                stop.stop();
                route.unwrap()
            });
            assert_eq!((route.path.distance, route.path.distance_reverse), (Some(1), Some(1)), "{route:?}");
            assert_eq!(route.mtu.map(|mtu| mtu.mtu_bytes), Some(9_216));
            let sweep = route.sweep.unwrap();
            assert_eq!((sweep.paths.len(), sweep.paths[0].answered), (1, 80));
            // A host that is busy with other work delays some flows more than others.
            assert!(sweep.suspects.iter().all(|suspect| suspect.by == SuspectBy::Delay), "{sweep:?}");
        }
    }
}
