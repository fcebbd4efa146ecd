//! Combines both ends of a run: the losses, and where they occurred.

use model::v1::probe::udp::{UdpOrder, UdpPoint, UdpReceived, UdpSent};

/// Compares the counters of both ends.
///
/// Lost is sent less received (udpmon). The receiving host's own losses are those of its counters: drops of this socket, less
/// datagrams with a wrong checksum, which were damaged on the path, and drops of full queues of processors and interfaces.
/// Datagrams that the sending host dropped without an error never reached the network. The rest was lost in the network. None
/// of these numbers is below 0.
pub fn point(order: UdpOrder, sent: UdpSent, received: UdpReceived) -> UdpPoint {
    let missing = sent.datagrams.saturating_sub(received.datagrams);
    // A receiver that was stopped did not lose the datagrams that arrived later: then only gaps in the numbers count.
    let lost = if received.ended == "interrupted" { received.lost.min(missing) } else { missing };
    let drops = &received.drops;
    let own = drops.socket.unwrap_or(drops.udp_buffer_errors).saturating_sub(drops.udp_checksum_errors);
    let pieces = own.saturating_add(drops.backlog);
    let in_pieces = if drops.in_trains { (pieces as f64 * drops.train_datagrams).round() as u64 } else { pieces };
    let in_host = in_pieces.saturating_add(drops.interfaces).min(lost);
    let at_sender = sent.host_dropped.min(lost - in_host);
    let in_network = lost - in_host - at_sender;
    let share = |part: u64| if sent.datagrams == 0 { 0.0 } else { part as f64 / sent.datagrams as f64 };
    let host_limited = match (&sent.host_limited, at_sender, in_host) {
        (Some(why), ..) => Some(format!("the sending host: {why}")),
        (None, 1.., _) => Some(format!("the sending host dropped {at_sender} of {lost} lost datagrams itself")),
        (None, 0, 1..) => Some(format!("the receiving host dropped {in_host} of {lost} lost datagrams itself")),
        (None, 0, 0) => None,
    };
    UdpPoint {
        order,
        lost,
        lost_share: share(lost),
        lost_in_host: in_host,
        lost_in_host_exact: is_exact(&received, own, lost),
        lost_in_network: in_network,
        lost_in_network_share: share(in_network),
        host_limited,
        sent,
        received,
    }
}

/// Whether the receiving host's drops are known exactly. Where duplicates or foreign datagrams arrived, the host may have
/// dropped such ones as well; it certainly did if the socket dropped more than is missing.
fn is_exact(received: &UdpReceived, own: u64, lost: u64) -> bool {
    let drops = &received.drops;
    let dropped_elsewhere = drops.backlog > 0 || drops.interfaces > 0 || drops.udp_checksum_errors > 0;
    let mixed = received.duplicates > 0 || received.unjudged > 0 || received.foreign > 0 || own > lost;
    drops.socket.is_some() && !dropped_elsewhere && (own == 0 || !(drops.in_trains || mixed))
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
    fn an_interrupted_receiver_counts_only_gaps_as_lost() {
        let order = UdpOrder { bytes: 100, pace: UdpPace::Max, count: Some(100), seconds: None };
        let sent = UdpSent { datagrams: 100, ..UdpSent::default() };
        let received = UdpReceived { datagrams: 40, lost: 2, ended: "interrupted".into(), ..UdpReceived::default() };
        assert_eq!(point(order, sent, received).lost, 2);
    }

    #[test]
    fn loss_is_split_between_host_and_network() {
        let split =
            |point: &UdpPoint| (point.lost, point.lost_in_host, point.lost_in_network, point.lost_in_host_exact);
        let clean = joined(100, dropped(0));
        assert_eq!((split(&clean), clean.host_limited), ((0, 0, 0, true), None));
        let both = joined(90, dropped(4));
        assert_eq!((split(&both), both.lost_share, both.lost_in_network_share), ((10, 4, 6, true), 0.1, 0.06));
        assert!(both.host_limited.is_some_and(|why| why.contains("4 of 10")));
        // The host dropped duplicates as well: its part of the loss is at most all of it.
        assert_eq!(split(&joined(98, dropped(5))), (2, 2, 0, false));
        assert_eq!(split(&joined(90, UdpDrops { udp_checksum_errors: 4, ..dropped(4) })), (10, 0, 10, false));
        assert_eq!(split(&joined(90, UdpDrops { backlog: 2, interfaces: 1, ..dropped(0) })), (10, 3, 7, false));
        let trains = UdpDrops { in_trains: true, train_datagrams: 7.0, ..dropped(1) };
        assert_eq!(split(&joined(90, trains)), (10, 7, 3, false));
        let unknown = UdpDrops { socket: None, udp_buffer_errors: 3, ..dropped(0) };
        assert_eq!(split(&joined(90, unknown)), (10, 3, 7, false));
    }

    #[test]
    fn drops_are_an_estimate_where_duplicates_or_foreign_datagrams_arrived() {
        let clean = UdpReceived { datagrams: 90, drops: dropped(4), ..UdpReceived::default() };
        assert!(is_exact(&clean, 4, 10));
        assert!(!is_exact(&UdpReceived { duplicates: 1, ..clean.clone() }, 4, 10));
        let foreign = UdpReceived { foreign: 1, ..clean };
        assert!(!is_exact(&foreign, 4, 10));
        assert!(is_exact(&UdpReceived { drops: dropped(0), ..foreign }, 0, 10), "nothing was dropped");
    }

    #[test]
    fn drops_of_the_sending_host_are_not_the_networks() {
        let joined = |host_dropped, drops| {
            let order = UdpOrder { bytes: 100, pace: UdpPace::Max, count: Some(100), seconds: None };
            let sent = UdpSent { datagrams: 100, host_dropped, ..UdpSent::default() };
            point(order, sent, UdpReceived { datagrams: 90, drops, ..UdpReceived::default() })
        };
        let found = joined(3, dropped(4));
        assert_eq!((found.lost, found.lost_in_host, found.lost_in_network), (10, 4, 3));
        assert!(found.host_limited.is_some_and(|why| why.contains("sending host dropped 3 of 10")));
        assert_eq!(joined(u64::MAX, dropped(4)).lost_in_network, 0, "no more than what is missing");
        let odd =
            UdpDrops { backlog: u64::MAX, interfaces: u64::MAX, udp_checksum_errors: u64::MAX, ..dropped(u64::MAX) };
        assert_eq!(joined(0, odd).lost_in_network, 0, "whatever a peer says");
    }

    #[test]
    fn a_run_without_datagrams_has_no_loss() {
        let order = UdpOrder { bytes: 100, pace: UdpPace::Max, count: Some(100), seconds: None };
        let point = point(order, UdpSent::default(), UdpReceived::default());
        assert_eq!((point.lost, point.lost_share, point.lost_in_network_share), (0, 0.0, 0.0));
    }
}
