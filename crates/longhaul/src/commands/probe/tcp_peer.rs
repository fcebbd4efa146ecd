//! The other end of a TCP test: a node, or an iperf3 server.

use std::net::SocketAddr;

use client::RemoteNode;
use model::v1::probe::tcp::{Interval, Order, Report};
use probe::Stop;

use super::target::{Target, connect, resolve};
use crate::failure::Failure;
use crate::settings::Settings;

/// The other end of a TCP test, connected.
pub enum TcpPeer {
    Node(Box<RemoteNode>),
    Iperf3(SocketAddr),
}

impl TcpPeer {
    /// Connects to a node, or resolves the address of an iperf3 server.
    ///
    /// # Errors
    /// The node cannot be reached, the name has no address, or the target has no TCP test.
    pub fn connect(target: &Target, settings: &Settings) -> Result<TcpPeer, Failure> {
        match target {
            Target::Node(at) => Ok(TcpPeer::Node(Box::new(connect(at, settings)?))),
            Target::Iperf3(at) => resolve(at).map(TcpPeer::Iperf3),
            Target::Stamp(_) => Err(Failure::usage("stamp:// is for probe latency")),
        }
    }

    /// Runs one test.
    ///
    /// # Errors
    /// The other end refuses the test, or it breaks off.
    pub fn test(
        &mut self,
        order: &Order,
        stop: &Stop,
        note: &mut (dyn FnMut(&Interval) + Send),
    ) -> probe::Result<Report> {
        match self {
            TcpPeer::Node(node) => probe::tcp::test(order, &mut **node, stop, note),
            TcpPeer::Iperf3(to) => probe::iperf3::test(*to, order, stop, note),
        }
    }
}
