//! What is said of a host: its addresses, and the settings that its node tells (`serve --audit`).

use std::net::IpAddr;

use serde_json::Value;

/// Settings of a host, by the rule of the audit that observes them: how records of 2026 call them, and the flat ones.
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
    /// As records of 2026 call it.
    pub name: &'static str,
    /// As flat records call it.
    pub flat: &'static str,
    /// What it is.
    pub value: String,
}

/// A host, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// The name that it is reached by.
    pub name: String,
    /// Its addresses that everybody may reach.
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
    /// Of a host by name; the audit is what its node answers, where it does.
    pub fn new(name: &str, addresses: impl IntoIterator<Item = IpAddr>, audit: Option<&Value>) -> HostFacts {
        let mut public: Vec<IpAddr> =
            addresses.into_iter().map(|it| it.to_canonical()).filter(|it| auth::policy::is_public(*it)).collect();
        public.sort_unstable();
        public.dedup();
        let mut facts = HostFacts { name: name.to_owned(), addresses: public, ..HostFacts::default() };
        if let Some(audit) = audit {
            facts.take(audit);
        }
        facts
    }

    fn take(&mut self, audit: &Value) {
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
            .filter_map(|(rule, name, flat)| Some(Setting { name, flat, value: observed(rule)? }))
            .collect();
    }
}
