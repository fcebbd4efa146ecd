//! HTTP requests of one client over a connection that is kept as long as the node keeps it.

use std::net::TcpStream;

use crate::node::Node;
use crate::web::raw::{Answer, Raw};

/// A client that sends requests over HTTP.
pub struct Requests<'a> {
    node: &'a Node,
    bearer: Option<String>,
    connection: Option<Raw>,
}

impl<'a> Requests<'a> {
    /// A client with a key, token or macaroon, or an anonymous one.
    pub fn new(node: &'a Node, key: Option<&str>) -> Requests<'a> {
        Requests { node, bearer: key.map(|key| format!("Bearer {key}")), connection: None }
    }

    /// Sends a request; returns the answer.
    #[track_caller]
    pub fn ask(&mut self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut all = fields.to_vec();
        if let Some(bearer) = &self.bearer {
            all.push(("Authorization", bearer));
        }
        let mut connection = self.connection.take().unwrap_or_else(|| Raw::to(self.node));
        connection.request(method, target, &all, body);
        let answer = if method == "HEAD" { connection.receive_head() } else { connection.receive() };
        let answer = answer.unwrap_or_else(|| panic!("{method} {target}: no answer"));
        if answer.field("connection") != Some("close") {
            self.connection = Some(connection);
        }
        answer
    }

    /// Sends a request; returns the status of the answer.
    #[track_caller]
    pub fn status(&mut self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> u16 {
        self.ask(method, target, fields, body).status
    }
}

/// Opens a connection to a port of this host, from an address of its own.
pub fn from_address(last: [u8; 2], port: u16) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    use std::net::{Ipv4Addr, SocketAddr};
    let own = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&own, &SocketAddr::from((Ipv4Addr::new(127, 0, last[0], last[1]), 0))).unwrap();
    connect(&own, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    own.into()
}
