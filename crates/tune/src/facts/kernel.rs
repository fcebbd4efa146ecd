//! The kernel: its release, its counters, what it can do.

use std::path::Path;

use super::{unknown, yes};
use crate::host::{Host, Known, Unread};
use crate::rule::release_of;

/// Major and minor number of its release.
pub fn kernel(of: &dyn Host) -> Known<(u32, u32)> {
    let release = of.read(Path::new("/proc/sys/kernel/osrelease"))?;
    release_of(&release).ok_or_else(|| Unread::Failed(format!("{release:?} is no release of Linux")))
}

/// A fact of the kernel; none where it has no such name.
pub(super) fn fact(of: &dyn Host, name: &str) -> Option<Known<String>> {
    Some(match name {
        "kernel_release" => of.read(Path::new("/proc/sys/kernel/osrelease")),
        "softnet_dropped" => softnet(of, 1),
        "softnet_time_squeeze" => softnet(of, 2),
        "tcp_retransmit_share" => retransmits(of),
        "conntrack_on_data_path" => has(of, "conntrack").and_then(yes),
        "firewall_rules" => rules(of),
        _ => return None,
    })
}

/// A column of `/proc/net/softnet_stat`, over all processors; hexadecimal.
fn softnet(of: &dyn Host, column: usize) -> Known<String> {
    let text = of.read(Path::new("/proc/net/softnet_stat"))?;
    let number = |line: &str| u32::from_str_radix(line.split_whitespace().nth(column)?, 16).ok().map(u64::from);
    let sum: Option<u64> = text.lines().map(number).sum();
    sum.filter(|_| !text.is_empty())
        .map(|sum| sum.to_string())
        .ok_or_else(|| Unread::Failed("softnet_stat has another shape".into()))
}

/// Segments sent again, of those sent, since the host started.
fn retransmits(of: &dyn Host) -> Known<String> {
    let text = of.read(Path::new("/proc/net/snmp"))?;
    let mut tcp =
        text.lines().filter(|line| line.starts_with("Tcp:")).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let (Some(names), Some(values)) = (tcp.next(), tcp.next()) else {
        return Err(Unread::Failed("snmp has another shape".into()));
    };
    let value = |name: &str| values.get(names.iter().position(|known| *known == name)?)?.parse::<f64>().ok();
    match (value("RetransSegs"), value("OutSegs")) {
        (Some(again), Some(sent)) if sent > 0.0 => Ok(format!("{:.6}", again / sent)),
        (Some(_), Some(_)) => Ok("0".into()),
        _ => Err(Unread::Failed("snmp has no RetransSegs and OutSegs".into())),
    }
}

/// Rules that a packet may have to pass, as far as anybody may count them.
fn rules(of: &dyn Host) -> Known<String> {
    let listing = of.say("nft", &["list", "ruleset"])?;
    let is_rule = |line: &&str| {
        let line = line.trim();
        !line.is_empty()
            && !line.ends_with('{')
            && line != "}"
            && !line.starts_with("type ")
            && !line.starts_with("policy ")
    };
    Ok(listing.lines().filter(is_rule).count().to_string())
}

/// Whether a number is not 0.
fn counts(text: &str) -> Known<bool> {
    text.parse::<u64>().map(|count| count > 0).map_err(|_| Unread::Failed(format!("{text:?} is no count")))
}

/// Whether the kernel can do something, or does it.
pub(super) fn has(of: &dyn Host, what: &str) -> Known<bool> {
    let module = |name: &str| {
        let loaded = of.read(Path::new("/proc/modules")).unwrap_or_default();
        loaded.lines().any(|line| line.split(' ').next() == Some(name))
            || of.list(&Path::new("/sys/module").join(name)).is_ok()
    };
    match what {
        "fq" => {
            Ok(module("sch_fq")
                || of.read(Path::new("/proc/sys/net/core/default_qdisc")).is_ok_and(|qdisc| qdisc == "fq"))
        }
        // Tracked connections are what counts: the module may be there, and nobody uses it.
        "conntrack" => match of.read(Path::new("/proc/sys/net/netfilter/nf_conntrack_count")) {
            Ok(count) => counts(&count),
            Err(Unread::Absent) => Ok(false),
            Err(why) => Err(why),
        },
        "ktls" => Ok(module("tls")),
        "hugepages_user" => counts(&of.read(Path::new("/proc/sys/vm/nr_hugepages"))?),
        _ => unknown(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/net")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join("proc/net").join(name), text).unwrap();
        write("softnet_stat", "0000000a 00000001 000000ff 0\n00000014 00000002 00000001 0\n");
        write("snmp", "Ip: A\nIp: 1\nTcp: OutSegs RetransSegs\nTcp: 1000 3\n");
        let host = crate::host::Recorded::new(dir.path());
        let says = |name: &str| fact(&host, name).unwrap();
        assert_eq!((says("softnet_dropped"), says("softnet_time_squeeze")), (Ok("3".into()), Ok("256".into())));
        assert_eq!(says("tcp_retransmit_share"), Ok("0.003000".into()));
        for absurd in ["garbage\n", "", "0 ffffffffffffffff\n0 ffffffffffffffff\n"] {
            write("softnet_stat", absurd);
            assert!(matches!(says("softnet_dropped"), Err(Unread::Failed(_))), "{absurd}");
        }
        assert!(fact(&host, "nothing").is_none());
    }
}
