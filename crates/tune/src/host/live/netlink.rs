//! The settings of an interface and its queueing disciplines by the names that rules use, and the text of each value.

use std::collections::BTreeSet;

use sys::rtnetlink::{self, Link, Qdisc, ROOT, Size};

use super::{host_result, number, unknown};
use crate::host::{HostError, HostResult};

/// Reads a setting.
pub(super) fn read(nic: &str, what: &str) -> HostResult<String> {
    match what {
        "qdisc" => Ok(root(&host_result(rtnetlink::qdiscs(nic))?)?.kind.clone()),
        "qdisc.children" => kinds(&host_result(rtnetlink::qdiscs(nic))?),
        "qdisc.fq_maxrate_bit_s" => flow_rate(&host_result(rtnetlink::qdiscs(nic))?),
        _ => link_setting(&host_result(rtnetlink::link(nic))?, what),
    }
}

/// Changes a setting that can be changed.
pub(super) fn write(nic: &str, what: &str, value: &str) -> HostResult<()> {
    match (what, size(what)) {
        ("qdisc", _) => host_result(rtnetlink::replace_qdisc(nic, value, ROOT, 0)),
        ("qdisc.children", _) => set_children(nic, value),
        (_, Some(size)) => host_result(rtnetlink::set_size(nic, size, number(value)?)),
        _ => unknown(what),
    }
}

fn size(what: &str) -> Option<Size> {
    Some(match what {
        "mtu" => Size::Mtu,
        "txqlen" => Size::QueuePackets,
        "gso_max_size" => Size::GsoMax,
        "gro_max_size" => Size::GroMax,
        "gso_ipv4_max_size" => Size::GsoIpv4Max,
        "gro_ipv4_max_size" => Size::GroIpv4Max,
        _ => return None,
    })
}

fn link_setting(link: &Link, what: &str) -> HostResult<String> {
    let text = |number: Option<u32>| number.map(|number| number.to_string()).ok_or(HostError::Absent);
    match what {
        "mtu" => text(link.mtu_bytes),
        "txqlen" => text(link.queue_packets),
        "numtxqueues" => text(link.transmit_queues),
        "gso_max_size" => text(link.gso_max_bytes),
        "gro_max_size" => text(link.gro_max_bytes),
        "gso_ipv4_max_size" => text(link.gso_ipv4_max_bytes),
        "gro_ipv4_max_size" => text(link.gro_ipv4_max_bytes),
        "tso_max_size" => text(link.tso_max_bytes),
        "kind" => link.kind.clone().ok_or(HostError::Absent),
        "operstate" => link.operstate.map(|state| operstate(state).to_owned()).ok_or(HostError::Absent),
        _ => unknown(what),
    }
}

/// The words of `/sys/class/net/NIC/operstate` (RFC 2863).
fn operstate(state: u8) -> &'static str {
    const STATES: [&str; 7] = ["unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"];
    STATES.get(usize::from(state)).copied().unwrap_or("unknown")
}

fn root(all: &[Qdisc]) -> HostResult<&Qdisc> {
    all.iter().find(|qdisc| qdisc.parent == ROOT).ok_or(HostError::Absent)
}

fn children(all: &[Qdisc]) -> HostResult<Vec<&Qdisc>> {
    let root = root(all)?;
    Ok(all.iter().filter(|qdisc| qdisc.is_child_of(root)).collect())
}

/// The kinds of the disciplines below the root, each once, sorted.
fn kinds(all: &[Qdisc]) -> HostResult<String> {
    let kinds: BTreeSet<&str> = children(all)?.iter().map(|qdisc| qdisc.kind.as_str()).collect();
    if kinds.is_empty() { Err(HostError::Absent) } else { Ok(kinds.into_iter().collect::<Vec<_>>().join(" ")) }
}

/// The maximum rate of one flow, if fq sets one: the lowest of all queues.
fn flow_rate(all: &[Qdisc]) -> HostResult<String> {
    match all.iter().filter_map(|qdisc| qdisc.flow_rate_max_bytes_s).min() {
        None => Err(HostError::Absent),
        Some(u32::MAX) => Ok("unlimited".into()),
        Some(bytes_s) => Ok((u64::from(bytes_s) * 8).to_string()),
    }
}

/// Gives every transmit queue below mq the same discipline.
fn set_children(nic: &str, value: &str) -> HostResult<()> {
    let kind = match value.split_whitespace().collect::<Vec<_>>()[..] {
        [kind] => kind,
        // An undo of queues that differed: which of them had which discipline is not known.
        _ => return Err(HostError::Failed(format!("which queue had which of {value:?} is not known"))),
    };
    let mut all = host_result(rtnetlink::qdiscs(nic))?;
    let root = root(&all)?;
    if root.kind != "mq" {
        return Err(HostError::Failed(format!(
            "the root is {}, and only mq has one discipline for each queue",
            root.kind
        )));
    }
    // A discipline that the kernel put there by itself has no handle, and no other can be put below it by name.
    if root.handle == 0 {
        host_result(rtnetlink::replace_qdisc(nic, "mq", ROOT, 0))?;
        all = host_result(rtnetlink::qdiscs(nic))?;
    }
    children(&all)?.iter().try_for_each(|queue| host_result(rtnetlink::replace_qdisc(nic, kind, queue.parent, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qdisc(kind: &str, handle: u32, parent: u32, flow_rate_max_bytes_s: Option<u32>) -> Qdisc {
        Qdisc { kind: kind.into(), handle, parent, flow_rate_max_bytes_s }
    }

    #[test]
    fn kinds_and_rates_below_the_root_are_read() {
        let mut all =
            vec![qdisc("mq", 0, ROOT, None), qdisc("fq", 0, 2, Some(u32::MAX)), qdisc("fq", 0, 1, Some(1_250_000))];
        assert_eq!((kinds(&all), flow_rate(&all)), (Ok("fq".into()), Ok("10000000".into())));
        all.push(qdisc("fq_codel", 0, 3, None));
        all.push(qdisc("clsact", 0xffff_0000, 0xffff_fff1, None));
        assert_eq!(kinds(&all), Ok("fq fq_codel".into()));
        let alone = [qdisc("fq", 0x8001_0000, ROOT, Some(u32::MAX))];
        assert_eq!((kinds(&alone), flow_rate(&alone)), (Err(HostError::Absent), Ok("unlimited".into())));
        assert_eq!((kinds(&[]), flow_rate(&[])), (Err(HostError::Absent), Err(HostError::Absent)));
    }

    #[test]
    fn numbers_that_an_old_kernel_lacks_are_absent() {
        let link = Link { mtu_bytes: Some(9_000), operstate: Some(6), ..Link::default() };
        assert_eq!(
            (link_setting(&link, "mtu"), link_setting(&link, "operstate")),
            (Ok("9000".into()), Ok("up".into()))
        );
        assert_eq!(link_setting(&link, "gso_ipv4_max_size"), Err(HostError::Absent));
        assert!(matches!(link_setting(&link, "no_such_thing"), Err(HostError::Failed(_))));
        assert_eq!(operstate(200), "unknown");
    }
}
