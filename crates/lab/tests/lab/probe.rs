//! Sockets at sites, counters of kernels, and whether the lab was quick enough to be judged.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use lab::{Counts, Lab};

/// Whether times and rates since the lab came up mean anything. If not, reports that past the test harness.
pub fn is_judged(test: &str, lab: &Lab) -> bool {
    let Some(why) = lab.limited(&lab.reading().unwrap()) else { return true };
    not_judged(test, &why);
    false
}

/// Reports past the test harness that the machine was too busy.
pub fn not_judged(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT JUDGED: {test}: {why}");
}

/// The address of a site's interface.
pub fn address_of(lab: &Lab, site: &str, interface: usize, v6: bool) -> IpAddr {
    let scenario = lab.scenario();
    let interface = &scenario.sites[scenario.site(site).unwrap()].interfaces[interface];
    if v6 { interface.v6.unwrap().0.into() } else { interface.v4.unwrap().0.into() }
}

/// The IPv4 address of a site.
pub fn address(lab: &Lab, site: &str) -> IpAddr {
    address_of(lab, site, 0, false)
}

/// A socket at a site with a large buffer, which gives up after two seconds.
pub fn udp(lab: &Lab, site: &str) -> UdpSocket {
    udp_at(lab, site, address(lab, site))
}

pub fn udp_at(lab: &Lab, site: &str, address: IpAddr) -> UdpSocket {
    let socket = lab.site(site).unwrap().within(|| UdpSocket::bind(SocketAddr::new(address, 0))).unwrap().unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 256 << 20).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket
}

/// All datagrams until none arrives for `silence`: their arrival times, and their first bytes.
pub fn drained(socket: &UdpSocket, silence: Duration) -> Vec<(Instant, u32)> {
    socket.set_read_timeout(Some(silence)).unwrap();
    let mut arrived = Vec::new();
    let mut buffer = [0; 65_536];
    while let Ok(length) = socket.recv(&mut buffer) {
        let number = buffer[..length].first_chunk().map_or(0, |chunk| u32::from_be_bytes(*chunk));
        arrived.push((Instant::now(), number));
    }
    arrived
}

/// Whether a datagram of this size arrives.
pub fn arrives(from: &UdpSocket, to: &UdpSocket, size: usize, timeout: Duration) -> bool {
    from.send_to(&vec![7; size], to.local_addr().unwrap()).unwrap();
    to.set_read_timeout(Some(timeout)).unwrap();
    to.recv(&mut [0; 65_536]).is_ok_and(|length| length == size)
}

/// A counter of a site's kernel: a table below /proc/net, a row and a column.
pub fn counter(lab: &Lab, site: &str, table: &str, row: &str, column: &str) -> u64 {
    let read = || std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
    let text = lab.site(site).unwrap().within(read).unwrap().unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let names = rows.iter().find(|words| words[0] == row).unwrap();
    let values = rows.iter().rfind(|words| words[0] == row).unwrap();
    let column_index = names.iter().position(|name| *name == column).unwrap();
    values[column_index].parse().unwrap()
}

/// The counts of a path's first member in one direction.
pub fn counts(lab: &Lab, path: &str, direction: usize) -> Counts {
    lab.reading().unwrap().links[lab.link(path, direction).unwrap()].counts
}

/// Waits until no packet is in transit.
pub fn settle(lab: &Lab) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let packets = || lab.reading().unwrap().links.iter().map(|link| link.counts.packets).sum::<u64>();
    let mut before = packets();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let (now, memory) = (packets(), lab.reading().unwrap().memory);
        if now == before && memory == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{memory} bytes are still on their way");
        before = now;
    }
}
