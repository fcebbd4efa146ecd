//! Losses in this host: the kernel's counters over all programs, read before and after a run.

use std::fs;
use std::path::Path;

/// Counters of the calling thread's network namespace. Those that the kernel does not have are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// `InErrors` of UDP over IPv4 and IPv6; includes the next two.
    pub udp_errors: u64,
    /// `RcvbufErrors`.
    pub udp_buffer_errors: u64,
    /// `InCsumErrors`.
    pub udp_checksum_errors: u64,
    /// `SndbufErrors`: no room for a datagram to be sent.
    pub udp_send_errors: u64,
    /// Packets that a processor's queue had no room for (second column of softnet_stat).
    pub backlog: u64,
    /// `rx_missed_errors` of all interfaces: no buffer in the interface's ring.
    pub interfaces: u64,
}

impl HostCounters {
    /// Reads the counters.
    pub fn read() -> HostCounters {
        // Threads of a process may be in several network namespaces; /proc/net is that of its first thread.
        let net = |file: &str| fs::read_to_string(Path::new("/proc/thread-self/net").join(file)).unwrap_or_default();
        let (four, six) = (net("snmp"), net("snmp6"));
        let udp = |name: &str| snmp(&four, name).saturating_add(snmp6(&six, name));
        HostCounters {
            udp_errors: udp("InErrors"),
            udp_buffer_errors: udp("RcvbufErrors"),
            udp_checksum_errors: udp("InCsumErrors"),
            udp_send_errors: udp("SndbufErrors"),
            backlog: backlog(&fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default()),
            interfaces: missed(),
        }
    }

    /// The counts since an earlier reading.
    pub fn since(&self, before: &HostCounters) -> HostCounters {
        HostCounters {
            udp_errors: self.udp_errors.saturating_sub(before.udp_errors),
            udp_buffer_errors: self.udp_buffer_errors.saturating_sub(before.udp_buffer_errors),
            udp_checksum_errors: self.udp_checksum_errors.saturating_sub(before.udp_checksum_errors),
            udp_send_errors: self.udp_send_errors.saturating_sub(before.udp_send_errors),
            backlog: self.backlog.saturating_sub(before.backlog),
            interfaces: self.interfaces.saturating_sub(before.interfaces),
        }
    }
}

/// A counter of `Udp:` in /proc/net/snmp: a line of names, then one of numbers.
fn snmp(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
    pairs.find(|(known, _)| *known == name).and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// A counter of UDP in /proc/net/snmp6: a name and a number in each line.
fn snmp6(text: &str, name: &str) -> u64 {
    let mut pairs = text.lines().filter_map(|line| line.strip_prefix("Udp6")?.split_once(char::is_whitespace));
    pairs.find(|(known, _)| *known == name).and_then(|(_, number)| number.trim().parse().ok()).unwrap_or(0)
}

/// The sum of the second column, hexadecimal, one line for each processor.
fn backlog(text: &str) -> u64 {
    text.lines().filter_map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok()).sum()
}

fn missed() -> u64 {
    let Ok(interfaces) = fs::read_dir("/sys/class/net") else { return 0 };
    let counter = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("statistics/rx_missed_errors")).ok();
    interfaces.flatten().filter_map(counter).filter_map(|text| text.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_kernels_tables() {
        let text = "Tcp: a InErrors\nTcp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\n\
                    Udp: 45 0 7 46 5\nUdpLite: InDatagrams NoPorts InErrors\nUdpLite: 1 2 3\n";
        assert_eq!((snmp(text, "InErrors"), snmp(text, "RcvbufErrors"), snmp(text, "InCsumErrors")), (7, 5, 0));
        let text = "Ip6InReceives   9\nUdp6InErrors                    \t4\nUdp6RcvbufErrors 3\nUdpLite6InErrors 8\n";
        assert_eq!((snmp6(text, "InErrors"), snmp6(text, "RcvbufErrors"), snmp6(text, "InCsumErrors")), (4, 3, 0));
        assert_eq!(backlog("0000ff 0000000a 0 0\n00 00000010 0\n\n"), 26);
        for garbage in ["", "Udp:", "Udp: InErrors\nUdp:", "Udp: InErrors\nUdp: x", "Udp6InErrors", "zz zz"] {
            assert_eq!((snmp(garbage, "InErrors"), snmp6(garbage, "InErrors"), backlog(garbage)), (0, 0, 0));
        }
    }
}
