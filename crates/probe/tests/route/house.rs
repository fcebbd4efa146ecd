//! Hosts and routers made of this kernel's own namespaces, joined by veth pairs: their ICMP is real.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;

use lab::rig::LabLock;
use sys::namespace::Namespaces;

/// A host; gone with this.
pub struct Host(Arc<Namespaces>);

/// Hosts of one test, which has the machine to itself.
pub struct House {
    _turn: LabLock,
}

impl House {
    /// None where there can be none: that is said loudly.
    pub fn new(test: &str) -> Option<House> {
        lab::rig::able(test).then(|| House { _turn: LabLock::take().unwrap() })
    }

    /// A host that forwards, and answers by ICMP as often as it is asked.
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
    /// Does something on a thread whose sockets are there, and stay there.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            self.0.enter_network().unwrap();
            act()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().unwrap())
    }

    /// Runs commands of ip(8) there.
    pub fn ip(&self, lines: &[&str]) {
        let mut ip = Command::new("ip");
        ip.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        self.0.hold(&mut ip, None).unwrap();
        let mut ip = ip.spawn().unwrap();
        ip.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
        let output = ip.wait_with_output().unwrap();
        assert!(output.status.success(), "ip {lines:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Joins it with another one by net 10.200.NUMBER.0/24: it is 1 there, the other 2. Both call the device after the
    /// number.
    pub fn join(&self, other: &Host, number: u8, mtu: u32) {
        let [net, ..] = other.0.descriptors();
        let there = format!("/proc/{}/fd/{net}", std::process::id());
        self.ip(&[&format!("link add v{number} mtu {mtu} type veth peer name v{number} mtu {mtu} netns {there}")]);
        for (host, own) in [(self, 1), (other, 2)] {
            host.ip(&[&format!("addr add 10.200.{number}.{own}/24 dev v{number}"), &format!("link set v{number} up")]);
        }
    }

    /// A route: to which net, by which net's neighbour (of the form 10.200.N.M).
    pub fn route(&self, to: u8, via: &str) {
        self.ip(&[&format!("route add 10.200.{to}.0/24 via {via}")]);
    }

    /// A socket there.
    pub fn bind(&self, address: [u8; 4], port: u16) -> UdpSocket {
        let at = SocketAddr::new(IpAddr::from(address), port);
        self.within(|| UdpSocket::bind(at)).unwrap()
    }

    /// A flow from there.
    pub fn open(&self, address: [u8; 4], port: u16, to: SocketAddr) -> UdpSocket {
        let from = SocketAddr::new(IpAddr::from(address), port);
        self.within(|| probe::route::open(from, to)).unwrap()
    }
}
