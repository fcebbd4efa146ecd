//! Both ends of a run put together: what was lost, and where.

use model::v1::probe::udp::{UdpOrder, UdpPoint, UdpReceived, UdpSent};

/// Compares what both ends counted.
///
/// Lost is sent less received (udpmon). Of that the receiving host lost what its own counters say: drops of the very
/// socket, less what had a wrong checksum and so was spoilt on its way, and full queues of processors and interfaces.
/// The rest is the network's; neither is below 0.
pub fn point(order: UdpOrder, sent: UdpSent, received: UdpReceived) -> UdpPoint {
    let lost = sent.datagrams.saturating_sub(received.datagrams);
    let drops = &received.drops;
    let own = drops.socket.unwrap_or(drops.udp_buffer_errors).saturating_sub(drops.udp_checksum_errors);
    let pieces = own.saturating_add(drops.backlog);
    let in_pieces = if drops.in_trains { (pieces as f64 * drops.train_datagrams).round() as u64 } else { pieces };
    let in_host = in_pieces.saturating_add(drops.interfaces).min(lost);
    let others = drops.backlog + drops.interfaces + drops.udp_checksum_errors;
    let exact = drops.socket.is_some() && others == 0 && (own == 0 || !drops.in_trains);
    let share = |part: u64| if sent.datagrams == 0 { 0.0 } else { part as f64 / sent.datagrams as f64 };
    let host_limited = match (&sent.host_limited, in_host) {
        (Some(why), _) => Some(format!("the sending host: {why}")),
        (None, 1..) => Some(format!("the receiving host dropped {in_host} of {lost} lost datagrams itself")),
        (None, 0) => None,
    };
    UdpPoint {
        order,
        lost,
        lost_share: share(lost),
        lost_in_host: in_host,
        lost_in_host_exact: exact,
        lost_in_network: lost - in_host,
        lost_in_network_share: share(lost - in_host),
        host_limited,
        sent,
        received,
    }
}

#[cfg(test)]
mod tests {
    use model::v1::probe::udp::{UdpDrops, UdpPace};

    use super::*;

    fn joined(received: u64, drops: UdpDrops) -> UdpPoint {
        let order = UdpOrder { bytes: 100, pace: UdpPace::Max, count: Some(100), seconds: None };
        let sent = UdpSent { datagrams: 100, ..UdpSent::default() };
        point(order, sent, UdpReceived { datagrams: received, drops, ..UdpReceived::default() })
    }

    fn dropped(socket: u64) -> UdpDrops {
        UdpDrops { socket: Some(socket), train_datagrams: 1.0, ..UdpDrops::default() }
    }

    #[test]
    fn loss_is_split_between_host_and_network() {
        let split = |point: &UdpPoint| (point.lost, point.lost_in_host, point.lost_in_network, point.lost_in_host_exact);
        let clean = joined(100, dropped(0));
        assert_eq!((split(&clean), clean.host_limited), ((0, 0, 0, true), None));
        let both = joined(90, dropped(4));
        assert_eq!((split(&both), both.lost_share, both.lost_in_network_share), ((10, 4, 6, true), 0.1, 0.06));
        assert!(both.host_limited.is_some_and(|why| why.contains("4 of 10")));
        // Copies of duplicates were dropped as well: no more than what is lost.
        assert_eq!(split(&joined(98, dropped(5))), (2, 2, 0, true));
        assert_eq!(split(&joined(90, UdpDrops { udp_checksum_errors: 4, ..dropped(4) })), (10, 0, 10, false));
        assert_eq!(split(&joined(90, UdpDrops { backlog: 2, interfaces: 1, ..dropped(0) })), (10, 3, 7, false));
        let trains = UdpDrops { in_trains: true, train_datagrams: 7.0, ..dropped(1) };
        assert_eq!(split(&joined(90, trains)), (10, 7, 3, false));
        let unsaid = UdpDrops { socket: None, udp_buffer_errors: 3, ..dropped(0) };
        assert_eq!(split(&joined(90, unsaid)), (10, 3, 7, false));
    }

    #[test]
    fn nothing_sent_is_nothing_lost() {
        let order = UdpOrder { bytes: 100, pace: UdpPace::Max, count: Some(100), seconds: None };
        let point = point(order, UdpSent::default(), UdpReceived::default());
        assert_eq!((point.lost, point.lost_share, point.lost_in_network_share), (0, 0.0, 0.0));
    }
}
