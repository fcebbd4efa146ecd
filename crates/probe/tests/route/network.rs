//! Hosts and routers made of this kernel's own namespaces, joined by veth pairs: their ICMP is real.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;

use lab::fixture::LabLock;
use sys::namespace::Namespaces;

/// A host, which exists as long as this.
pub struct Host(Arc<Namespaces>);

/// The hosts of one test. No other test with a network runs at the same time.
pub struct TestNetwork {
    _lock: LabLock,
}

impl TestNetwork {
    /// None if namespaces cannot be made, which is reported on stderr.
    pub fn new(test: &str) -> Option<TestNetwork> {
        lab::fixture::has_prerequisites(test).then(|| TestNetwork { _lock: LabLock::take().unwrap() })
    }

    /// A host that forwards, and whose ICMP has no rate limit.
    pub fn host(&self) -> Host {
        let make = || Namespaces::make().unwrap();
        let host = Host(Arc::new(std::thread::spawn(make).join().unwrap()));
        host.ip(&["link set lo up"]);
        for (name, value) in [
            ("net/ipv4/ip_forward", "1"),
            ("net/ipv4/icmp_ratelimit", "0"),
            ("net/ipv4/fib_multipath_hash_policy", "1"),
            ("net/ipv4/conf/all/rp_filter", "0"),
            ("net/ipv4/conf/default/rp_filter", "0"),
        ] {
            host.within(|| std::fs::write(format!("/proc/sys/{name}"), value)).unwrap();
        }
        host
    }
}

impl Host {
    /// Runs `act` on a thread in the host's network: its sockets belong to that network.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            self.0.enter_network().unwrap();
            act()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().unwrap())
    }

    /// Runs commands of ip(8) on the host.
    pub fn ip(&self, lines: &[&str]) {
        let mut ip = Command::new("ip");
        ip.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        self.0.run_in(&mut ip, None).unwrap();
        let mut ip = ip.spawn().unwrap();
        ip.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
        let output = ip.wait_with_output().unwrap();
        assert!(output.status.success(), "ip {lines:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Joins it with another one by net 10.200.NUMBER.0/24, in which it has address 1 and the other 2. On both, the device is vNUMBER.
    pub fn join(&self, other: &Host, number: u8, mtu: u32) {
        let [net, ..] = other.0.descriptors();
        let namespace = format!("/proc/{}/fd/{net}", std::process::id());
        self.ip(&[&format!("link add v{number} mtu {mtu} type veth peer name v{number} mtu {mtu} netns {namespace}")]);
        for (host, own) in [(self, 1), (other, 2)] {
            host.ip(&[&format!("addr add 10.200.{number}.{own}/24 dev v{number}"), &format!("link set v{number} up")]);
        }
    }

    /// Adds a route to net 10.200.TO.0/24 through the router `via`.
    pub fn route(&self, to: u8, via: &str) {
        self.ip(&[&format!("route add 10.200.{to}.0/24 via {via}")]);
    }

    /// A socket on the host.
    pub fn bind(&self, address: [u8; 4], port: u16) -> UdpSocket {
        let at = SocketAddr::new(IpAddr::from(address), port);
        self.within(|| UdpSocket::bind(at)).unwrap()
    }

    /// The socket of a flow from the host.
    pub fn open(&self, address: [u8; 4], port: u16, to: SocketAddr) -> UdpSocket {
        let from = SocketAddr::new(IpAddr::from(address), port);
        self.within(|| probe::route::open(from, to)).unwrap()
    }
}
