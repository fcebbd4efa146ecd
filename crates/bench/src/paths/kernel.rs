//! The network counters of a site: the tables below its /proc/net, which nstat(8) also reads.
//!
//! Does not know: what the lab did.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use lab::Lab;

/// A site's counters: `TcpRetransSegs`, `UdpInCsumErrors`, `TcpExtTCPLossProbes`, …
#[derive(Clone, Debug, Default)]
pub struct KernelCounters(HashMap<String, u64>);

impl KernelCounters {
    /// Reads the counters of a site.
    ///
    /// # Errors
    /// The site's tables cannot be read.
    pub fn of(lab: &Lab, site: &str) -> Result<KernelCounters> {
        let read = |name: &str| fs::read_to_string(Path::new("/proc/thread-self/net").join(name));
        let texts = lab.site(site)?.within(|| ["snmp", "netstat", "snmp6"].map(read))?;
        let [snmp, netstat, snmp6] = texts;
        let mut kernel = KernelCounters::default();
        kernel.take_pairs(&snmp.context("cannot read the counters of a site's network")?);
        kernel.take_pairs(&netstat?);
        // A kernel without IPv6 has no such table.
        kernel.take_columns(&snmp6.unwrap_or_default());
        Ok(kernel)
    }

    /// Adds the counters of a table of pairs of lines: names, then values, each after the protocol's name.
    fn take_pairs(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks_exact(2) {
            let (Some((protocol, names)), Some((_, values))) = (pair[0].split_once(':'), pair[1].split_once(':'))
            else {
                continue;
            };
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                // A few values are negative: they are limits, not counters.
                if let Ok(value) = value.parse() {
                    self.0.insert(format!("{protocol}{name}"), value);
                }
            }
        }
    }

    /// Adds the counters of a table whose lines have one name and one value.
    fn take_columns(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((name, value)) = line.split_once(char::is_whitespace)
                && let Ok(value) = value.trim().parse()
            {
                self.0.insert(name.to_owned(), value);
            }
        }
    }

    /// The growth of a counter since an earlier reading; 0 if this kernel lacks the counter.
    pub fn growth_since(&self, earlier: &KernelCounters, name: &str) -> u64 {
        let counter = |kernel: &KernelCounters| kernel.0.get(name).copied().unwrap_or_default();
        counter(self).saturating_sub(counter(earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read() {
        let mut kernel = KernelCounters::default();
        kernel.take_pairs("Tcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 17\nUdp: InDatagrams InCsumErrors\nUdp: 4 5\n");
        kernel.take_columns("Ip6InReceives                   \t12\nUdp6InCsumErrors                \t6\n");
        let none = KernelCounters::default();
        let names = ["TcpRetransSegs", "UdpInCsumErrors", "Udp6InCsumErrors", "TcpMaxConn", "Nothing"];
        assert_eq!(names.map(|name| kernel.growth_since(&none, name)), [17, 5, 6, 0, 0]);
        assert_eq!(kernel.growth_since(&kernel, "TcpRetransSegs"), 0);
    }
}
