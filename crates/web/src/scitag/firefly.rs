//! Fireflies: datagrams that are sent when a marked flow begins, while it continues, and when it ends. Each is a syslog header (RFC 5424)
//! and JSON of schema version 1.

use std::net::SocketAddr;

use model::Timestamp;
use serde::Serialize;

use super::SciTag;
use crate::date;

/// The port of collectors, UDP.
pub const COLLECTOR_PORT: u16 = 10514;

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// The flow begins.
    Start,
    /// The flow continues.
    Ongoing,
    /// The flow has ended.
    End,
}

/// The content of a firefly.
#[derive(Clone, Debug)]
pub struct Firefly {
    /// The state of the flow.
    pub state: FlowState,
    /// The time now; at the end, the time of the end.
    pub now: Timestamp,
    /// When the flow began.
    pub started: Timestamp,
    /// The experiment and activity.
    pub tag: SciTag,
    /// The program that the flow belongs to; left out where it is empty.
    pub application: String,
    /// The sender of the data, whichever end reports: this is the convention.
    pub source: SocketAddr,
    /// The receiver of the data.
    pub target: SocketAddr,
    /// The bytes that the source received, and those that it sent, from `TCP_INFO` of an open socket. A receiver that reports swaps its
    /// own numbers, as xrootd does since its pull request 2359.
    pub usage: Option<(u64, u64)>,
    /// The round-trip time, milliseconds, from `TCP_INFO`.
    pub rtt_ms: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Body<'a> {
    version: u8,
    flow_lifecycle: Lifecycle,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    netlink: Option<Netlink>,
    context: Context<'a>,
    flow_id: FlowId,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Lifecycle {
    state: &'static str,
    current_time: String,
    start_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<String>,
}

#[derive(Serialize)]
struct Usage {
    received: u64,
    sent: u64,
}

#[derive(Serialize)]
struct Netlink {
    rtt: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Context<'a> {
    experiment_id: u16,
    activity_id: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    application: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct FlowId {
    afi: &'static str,
    src_ip: String,
    dst_ip: String,
    protocol: &'static str,
    src_port: u16,
    dst_port: u16,
}

impl Firefly {
    fn lifecycle(&self) -> Lifecycle {
        let state = match self.state {
            FlowState::Start => "start",
            FlowState::Ongoing => "ongoing",
            FlowState::End => "end",
        };
        let now = date::rfc3339_us(self.now);
        let end_time = (self.state == FlowState::End).then(|| now.clone());
        Lifecycle { state, current_time: now, start_time: date::rfc3339_us(self.started), end_time }
    }

    fn flow_id(&self) -> FlowId {
        // An IPv6 socket shows an IPv4 peer as a mapped address; the packets are IPv4.
        let (source, target) = (self.source.ip().to_canonical(), self.target.ip().to_canonical());
        FlowId {
            afi: if source.is_ipv4() { "ipv4" } else { "ipv6" },
            src_ip: source.to_string(),
            dst_ip: target.to_string(),
            protocol: "tcp",
            src_port: self.source.port(),
            dst_port: self.target.port(),
        }
    }

    /// The datagram, from the host of this name: `<134>` is the facility local0, severity "informational".
    pub fn datagram(&self, host: &str) -> String {
        let body = Body {
            version: 1,
            flow_lifecycle: self.lifecycle(),
            usage: self.usage.map(|(received, sent)| Usage { received, sent }),
            // JSON has no form for infinities and NaN.
            netlink: self.rtt_ms.filter(|rtt| rtt.is_finite()).map(|rtt| Netlink { rtt }),
            context: Context {
                experiment_id: self.tag.experiment(),
                activity_id: self.tag.activity(),
                application: &self.application,
            },
            flow_id: self.flow_id(),
        };
        // Plain structs of numbers and strings always have a JSON form.
        let json = serde_json::to_string(&body).unwrap_or_default();
        let host: String = host.chars().filter(char::is_ascii_graphic).take(255).collect();
        let host = if host.is_empty() { "-" } else { &host };
        format!("<134>1 {} {host} longhaul - firefly-json - {json}", date::rfc3339_us(self.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firefly(state: FlowState) -> Firefly {
        Firefly {
            state,
            now: Timestamp { seconds: 1_795_175_181, nanos: 69_473_000 },
            started: Timestamp { seconds: 1_795_175_180, nanos: 0 },
            tag: SciTag::parse("452"),
            application: "longhaul".to_owned(),
            source: "[::ffff:127.0.0.1]:11098".parse().unwrap(),
            target: "127.0.0.1:34300".parse().unwrap(),
            usage: Some((269, 10_010_094)),
            rtt_ms: Some(1.264),
        }
    }

    #[test]
    fn a_firefly_equals_that_of_the_reference_server() {
        let expected = "<134>1 2026-11-20T11:46:21.069473Z vm longhaul - firefly-json - {\"version\":1,\
            \"flow-lifecycle\":{\"state\":\"end\",\"current-time\":\"2026-11-20T11:46:21.069473Z\",\
            \"start-time\":\"2026-11-20T11:46:20.000000Z\",\"end-time\":\"2026-11-20T11:46:21.069473Z\"},\
            \"usage\":{\"received\":269,\"sent\":10010094},\"netlink\":{\"rtt\":1.264},\
            \"context\":{\"experiment-id\":7,\"activity-id\":4,\"application\":\"longhaul\"},\
            \"flow-id\":{\"afi\":\"ipv4\",\"src-ip\":\"127.0.0.1\",\"dst-ip\":\"127.0.0.1\",\"protocol\":\"tcp\",\
            \"src-port\":11098,\"dst-port\":34300}}";
        assert_eq!(firefly(FlowState::End).datagram("vm"), expected);
    }

    #[test]
    fn unknown_values_are_left_out() {
        let bare = Firefly {
            usage: None,
            rtt_ms: Some(f64::NAN),
            application: String::new(),
            source: "[2001:db8::1]:1".parse().unwrap(),
            target: "[2001:db8::2]:2".parse().unwrap(),
            ..firefly(FlowState::Start)
        };
        let text = bare.datagram("a b\n");
        assert!(
            text.contains(" ab longhaul ") && text.contains("\"afi\":\"ipv6\",\"src-ip\":\"2001:db8::1\""),
            "{text}"
        );
        for absent in ["usage", "netlink", "application", "end-time"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
        assert!(firefly(FlowState::Ongoing).datagram("").contains("Z - longhaul - firefly-json - {\"version\":1"));
        assert!(firefly(FlowState::Ongoing).datagram("").contains("\"state\":\"ongoing\""));
    }
}
