//! The kernel: its release, its counters, its features.

use std::path::Path;

use super::unknown;
use crate::host::{Host, HostError, HostResult};
use crate::rule::release_of;

/// The major and minor number of its release.
pub(crate) fn kernel(host: &dyn Host) -> HostResult<(u32, u32)> {
    let release = host.read(Path::new("/proc/sys/kernel/osrelease"))?;
    release_of(&release).ok_or_else(|| HostError::Failed(format!("{release:?} is not a release of Linux")))
}

/// A fact of the kernel; none where it has no such name.
pub(super) fn fact(host: &dyn Host, name: &str) -> Option<HostResult<String>> {
    Some(match name {
        "kernel_series" => kernel(host).map(|(major, minor)| format!("{major}.{minor}")),
        "kernel_release" => host.read(Path::new("/proc/sys/kernel/osrelease")),
        "softnet_dropped" => softnet(host, 1),
        "softnet_time_squeeze" => softnet(host, 2),
        "tcp_retransmit_share" => retransmits(host),
        "conntrack_entries" => count(host, "/proc/sys/net/netfilter/nf_conntrack_count").map(|count| count.to_string()),
        "firewall_rules" => rules(host),
        _ => return None,
    })
}

/// A column of `/proc/net/softnet_stat`, over all processors; hexadecimal.
fn softnet(host: &dyn Host, column: usize) -> HostResult<String> {
    let text = host.read(Path::new("/proc/net/softnet_stat"))?;
    let number = |line: &str| u32::from_str_radix(line.split_whitespace().nth(column)?, 16).ok().map(u64::from);
    let sum: Option<u64> = text.lines().map(number).sum();
    sum.filter(|_| !text.is_empty())
        .map(|sum| sum.to_string())
        .ok_or_else(|| HostError::Failed("softnet_stat has an unexpected format".into()))
}

/// The part of the sent segments that were sent again, since the host started.
fn retransmits(host: &dyn Host) -> HostResult<String> {
    let text = host.read(Path::new("/proc/net/snmp"))?;
    let mut tcp =
        text.lines().filter(|line| line.starts_with("Tcp:")).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let (Some(names), Some(values)) = (tcp.next(), tcp.next()) else {
        return Err(HostError::Failed("snmp has an unexpected format".into()));
    };
    let value = |name: &str| values.get(names.iter().position(|known| *known == name)?)?.parse::<f64>().ok();
    match (value("RetransSegs"), value("OutSegs")) {
        (Some(again), Some(sent)) if sent > 0.0 => Ok(format!("{:.6}", again / sent)),
        (Some(_), Some(_)) => Ok("0".into()),
        _ => Err(HostError::Failed("snmp has no RetransSegs and OutSegs".into())),
    }
}

/// The number of filter rules that a packet may have to pass; only root may count them.
fn rules(host: &dyn Host) -> HostResult<String> {
    if !host.may_administer() {
        return Err(HostError::Denied);
    }
    match host.whole_output("nft", &["list", "ruleset"]) {
        Ok(listing) => Ok(listing.lines().filter(|line| is_rule(line)).count().to_string()),
        // There may still be rules of older programs.
        Err(HostError::Absent) => Err(HostError::Failed("the program nft, which lists them, is not installed".into())),
        Err(why) => Err(why),
    }
}

/// Whether a line of a listing is a rule: no head, no end, no comment, no property of a chain.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    let is_other = ["#", "type ", "policy "].iter().any(|start| line.starts_with(start));
    !line.is_empty() && !line.ends_with('{') && line != "}" && !is_other
}

/// A count in a file.
fn count(host: &dyn Host, path: &str) -> HostResult<u64> {
    let text = host.read(Path::new(path))?;
    text.parse().map_err(|_| HostError::Failed(format!("{text:?} is not a count")))
}

/// Whether the kernel has a feature, or uses it.
pub(super) fn has(host: &dyn Host, what: &str) -> HostResult<bool> {
    match what {
        "fq" => {
            let is_default = host.read(Path::new("/proc/sys/net/core/default_qdisc")).is_ok_and(|qdisc| qdisc == "fq");
            if is_default { Ok(true) } else { module(host, "sch_fq") }
        }
        // Tracked connections count: the module may be loaded without use.
        "conntrack" => match count(host, "/proc/sys/net/netfilter/nf_conntrack_count") {
            Ok(count) => Ok(count > 0),
            Err(HostError::Absent) => Ok(false),
            Err(why) => Err(why),
        },
        "ktls" => module(host, "tls"),
        "hugepages_user" => count(host, "/proc/sys/vm/nr_hugepages").map(|count| count > 0),
        _ => unknown(what),
    }
}

/// Whether the kernel has a module, or can load it. A module that is not loaded may still exist, so "no" needs both lists of the build:
/// modules, and built-in ones.
fn module(host: &dyn Host, name: &str) -> HostResult<bool> {
    let loaded = host.read(Path::new("/proc/modules")).unwrap_or_default();
    let is_loaded = loaded.lines().any(|line| line.split(' ').next() == Some(name));
    if is_loaded || host.list(&Path::new("/sys/module").join(name)).is_ok() {
        return Ok(true);
    }
    let release = host.read(Path::new("/proc/sys/kernel/osrelease"))?;
    let built = Path::new("/lib/modules").join(release);
    // The lists must be read as a whole.
    let lists = ["modules.dep", "modules.builtin"].map(|list| host.read_exact(&built.join(list)));
    if lists.iter().flatten().any(|list| lists_module(list, name)) {
        return Ok(true);
    }
    let unread = lists.into_iter().find_map(Result::err);
    unread.map_or(Ok(false), |why| {
        Err(HostError::Failed(format!("{name} is not loaded, and whether it can be loaded is not known: {why}")))
    })
}

/// Whether a list of modules has this one: `kernel/net/sched/sch_fq.ko.zst: kernel/...`, without its dependencies.
fn lists_module(list: &str, module: &str) -> bool {
    let is_module = |line: &str| {
        let path = line.split(':').next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        // A name has an underscore where the file may have a dash.
        file.split_once(".ko").is_some_and(|(name, _)| name.replace('-', "_") == module)
    };
    list.lines().any(is_module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::tree;

    #[test]
    fn counters_of_the_kernel_are_summed() {
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
            assert!(matches!(says("softnet_dropped"), Err(HostError::Failed(_))), "{absurd}");
        }
        assert!(fact(&host, "nothing").is_none());
    }

    #[test]
    fn a_module_that_can_be_loaded_is_available() {
        const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.1.0-x\n");
        const DEP: &str = "lib/modules/6.1.0-x/modules.dep";
        const BUILTIN: &str = "lib/modules/6.1.0-x/modules.builtin";
        let fq = |files: &[(&str, &str)]| {
            let dir = tree(files);
            let host = crate::host::Recorded::new(dir.path());
            (has(&host, "fq"), has(&host, "ktls"))
        };
        let dep = "kernel/net/sched/sch_fq.ko.zst:\nkernel/net/x.ko: kernel/net/tls/tls.ko.xz\n";
        assert_eq!(fq(&[RELEASE, (DEP, dep), (BUILTIN, "")]), (Ok(true), Ok(false)), "dependencies are ignored");
        let builtin = "kernel/net/sched/sch_fq_codel.ko\nkernel/net/tls/tls.ko\n";
        assert_eq!(fq(&[RELEASE, (DEP, ""), (BUILTIN, builtin)]), (Ok(false), Ok(true)), "fq_codel is another module");
        let loaded = ("proc/modules", "tls 151552 0 - Live 0x0\n");
        let (fq_is, tls_is) = fq(&[RELEASE, loaded]);
        assert!(matches!(fq_is, Err(HostError::Failed(_))), "not loaded, and there are no lists: {fq_is:?}");
        assert_eq!(tls_is, Ok(true));
        let (fq_is, _) = fq(&[RELEASE, (DEP, "")]);
        assert!(matches!(fq_is, Err(HostError::Failed(_))), "it may be built in: {fq_is:?}");
        assert_eq!(fq(&[("proc/sys/net/core/default_qdisc", "fq\n"), loaded]), (Ok(true), Ok(true)));
    }

    #[test]
    fn firewall_rules_are_counted() {
        const LISTING: &str = "# Warning: table ip filter is managed by iptables-nft\ntable inet filter {\n\tchain input {\n\t\t\
            type filter hook input priority filter; policy accept;\n\t\ttcp dport 22 accept\n\t\tudp dport 53 accept\n\t}\n}\n";
        for (listing, wanted) in [(LISTING, "2"), ("", "0")] {
            let dir = tree(&[("say/nft list ruleset", listing)]);
            assert_eq!(rules(&crate::host::Recorded::new(dir.path())), Ok(wanted.into()));
        }
        let dir = tree(&[]);
        let without = rules(&crate::host::Recorded::new(dir.path()));
        assert!(matches!(without, Err(HostError::Failed(_))), "there may be others: {without:?}");
    }

    #[test]
    fn connections_are_counted_and_not_judged() {
        let count = |text: &str| {
            let dir = tree(&[("proc/sys/net/netfilter/nf_conntrack_count", text)]);
            fact(&crate::host::Recorded::new(dir.path()), "conntrack_entries").unwrap()
        };
        assert_eq!(count("17\n"), Ok("17".into()));
        assert!(matches!(count("lots\n"), Err(HostError::Failed(_))));
    }
}
