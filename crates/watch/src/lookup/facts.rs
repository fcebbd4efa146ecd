//! The facts of a host for its records: its addresses, and the settings that its node reports (`serve --audit`).

use std::net::IpAddr;

use serde_json::Value;

/// Settings of a host: the rule of the audit that observes each, its name in records of 2026, and its name in flat records.
const SETTINGS: [(&str, &str, &str); 9] = [
    ("T01", "net_core_rmem_max", "host-net-tcp-maxbuffer-recv"),
    ("T02", "net_core_wmem_max", "host-net-tcp-maxbuffer-send"),
    ("T03", "net_ipv4_tcp_rmem_max", "host-net-tcp-autotunemaxbuffer-recv"),
    ("T04", "net_ipv4_tcp_wmem_max", "host-net-tcp-autotunemaxbuffer-send"),
    ("T09", "net_ipv4_tcp_no_metrics_save", "host-net-tcp-nometricssave"),
    ("T10", "net_ipv4_tcp_mtu_probing", "host-net-tcp-mtuprobing"),
    ("T11", "net_ipv4_tcp_congestion_control", "host-net-tcp-congestionalgorithm"),
    ("T19", "net_core_default_qdisc", "host-net-qdisc"),
    ("T22", "net_core_netdev_max_backlog", "host-net-tcp-maxbacklog"),
];

/// A setting with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in records of 2026.
    pub name: &'static str,
    /// Its name in flat records.
    pub flat_name: &'static str,
    /// Its value.
    pub value: String,
}

/// A host, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// The name under which it is reached.
    pub name: String,
    /// Its public addresses.
    pub addresses: Vec<IpAddr>,
    /// The kernel.
    pub kernel: Option<String>,
    /// A NIC: its name, its rate in bit/s, its MTU in bytes.
    pub nic: Option<(String, Option<u64>, Option<u64>)>,
    /// Whether it is a virtual machine.
    pub is_virtual: Option<bool>,
    /// Its settings.
    pub settings: Vec<Setting>,
}

impl HostFacts {
    /// The facts of a host by its name and addresses, and by the audit of its node, if the node gives one.
    pub fn new(name: &str, addresses: impl IntoIterator<Item = IpAddr>, audit: Option<&Value>) -> HostFacts {
        let mut public: Vec<IpAddr> =
            addresses.into_iter().map(|it| it.to_canonical()).filter(|it| auth::policy::is_public(*it)).collect();
        public.sort_unstable();
        public.dedup();
        let mut facts = HostFacts { name: name.to_owned(), addresses: public, ..HostFacts::default() };
        if let Some(audit) = audit {
            facts.add_audit(audit);
        }
        facts
    }

    fn add_audit(&mut self, audit: &Value) {
        let host = &audit["host"]["host"];
        self.kernel = host["kernel"].as_str().map(str::to_owned);
        self.nic = host["nics"].as_array().and_then(|nics| nics.first()).and_then(|nic| {
            Some((nic["name"].as_str()?.to_owned(), nic["speed_bit_s"].as_u64(), nic["mtu_bytes"].as_u64()))
        });
        let observed = |rule: &str| {
            let findings = audit["findings"].as_array()?;
            findings.iter().find(|finding| finding["id"] == rule)?["observed"].as_str().map(str::to_owned)
        };
        self.is_virtual = observed("C18").map(|machine| machine != "none");
        self.settings = SETTINGS
            .iter()
            .filter_map(|(rule, name, flat_name)| Some(Setting { name, flat_name, value: observed(rule)? }))
            .collect();
    }
}
