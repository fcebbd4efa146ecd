//! The other end of a TCP test: a node, or an iperf3 server.

use std::net::SocketAddr;

use client::FarNode;
use model::v1::probe::tcp::{Interval, Order, Report};
use probe::Stop;

use super::target::{Target, connect, resolve};
use crate::failure::Failure;
use crate::settings::Settings;

/// The other end of a test, ready.
pub enum Far {
    Node(Box<FarNode>),
    Iperf3(SocketAddr),
}

impl Far {
    /// Connects.
    pub fn connect(target: &Target, settings: &Settings) -> Result<Far, Failure> {
        match target {
            Target::Node(at) => Ok(Far::Node(Box::new(connect(at, settings)?))),
            Target::Iperf3(at) => resolve(at).map(Far::Iperf3),
            Target::Stamp(_) => Err(Failure::usage("stamp:// is for probe latency")),
        }
    }

    /// Runs one test.
    pub fn test(
        &mut self,
        order: &Order,
        stop: &Stop,
        note: &mut (dyn FnMut(&Interval) + Send),
    ) -> probe::Result<Report> {
        match self {
            Far::Node(node) => probe::tcp::test(order, &mut **node, stop, note),
            Far::Iperf3(to) => probe::iperf3::test(*to, order, stop, note),
        }
    }
}
