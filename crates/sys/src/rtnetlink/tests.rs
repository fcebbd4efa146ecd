//! Invented, truncated and random messages; and the answers of this kernel.

use proptest::prelude::*;

use super::parse::{HEAD_BYTES, attributes};
use super::*;

/// Reports a skipped test on stderr, past the harness, which hides the output of tests that pass.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

fn number(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// The body of a message as the kernel would send it.
fn body(fixed: &[u8], with: &[(u16, Vec<u8>)]) -> Vec<u8> {
    request(0, 0, 0, fixed, with).split_off(HEAD_BYTES)
}

/// The bytes of attributes in a row.
fn nested(with: &[(u16, Vec<u8>)]) -> Vec<u8> {
    body(&[], with)
}

fn nic() -> Vec<u8> {
    let mut head = [0; LINK_BYTES];
    head[4..8].copy_from_slice(&7i32.to_ne_bytes());
    let info = nested(&[(IFLA_INFO_KIND, b"veth\0".to_vec())]);
    // The kind of a nested attribute has a bit for that.
    let with = [
        (IFLA_MTU, number(9_000)),
        (IFLA_OPERSTATE, vec![6]),
        (IFLA_LINKINFO | 0x8000, info),
        (IFLA_GSO_MAX_SIZE, number(185_000)),
    ];
    body(&head, &with)
}

#[test]
fn an_interface_is_read() {
    let link = parse_link(&nic()).unwrap();
    assert_eq!((link.index, link.mtu_bytes, link.operstate), (7, Some(9_000), Some(6)));
    assert_eq!((link.kind.as_deref(), link.gso_max_bytes), (Some("veth"), Some(185_000)));
    assert_eq!(link.tso_max_bytes, None, "an old kernel does not know it");
}

#[test]
fn only_disciplines_of_the_interface_are_read() {
    let options = nested(&[(TCA_FQ_FLOW_MAX_RATE, number(1_250_000))]);
    let with = [(TCA_KIND, b"fq\0".to_vec()), (TCA_OPTIONS, options)];
    let all = body(&qdisc_head(7, 0x8001_0000, 0x0001_0002), &with);
    let fq = parse_qdisc(&all, 7).unwrap();
    assert_eq!((fq.kind.as_str(), fq.handle, fq.flow_rate_max_bytes_s), ("fq", 0x8001_0000, Some(1_250_000)));
    assert_eq!(parse_qdisc(&all, 8), None);
    let root = Qdisc { kind: "mq".into(), handle: 0x0001_0000, parent: ROOT, ..Qdisc::default() };
    assert!(fq.is_child_of(&root) && !root.is_child_of(&root));
    let clsact = Qdisc { parent: 0xffff_fff1, ..Qdisc::default() };
    assert!(!clsact.is_child_of(&root));
}

#[test]
fn a_truncated_message_ends_the_messages() {
    let whole = request(RTM_NEWLINK, 0, 1, &nic(), &[]);
    assert_eq!(messages(&whole).count(), 1);
    for length in 0..whole.len() {
        assert_eq!(messages(&whole[..length]).count(), 0, "{length} bytes");
        if let Some(link) = parse_link(&nic()[..length.min(nic().len())]) {
            assert_eq!(link.index, 7);
        }
    }
    // Attributes and messages with a length below that of their head would otherwise never end.
    assert_eq!(attributes(&[0, 0, 1, 0, 0, 0, 0, 0]).count(), 0);
    assert_eq!(messages(&[0; 64]).count(), 0);
}

#[test]
fn refusals_are_errors() {
    assert!(refusal(&[0; 4]).is_ok());
    assert_eq!(refusal(&(-libc::ENODEV).to_ne_bytes()).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    assert!(refusal(&i32::MIN.to_ne_bytes()).is_err() && refusal(&[1]).is_err());
}

proptest! {
    #[test]
    fn random_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), index in -2i32..10) {
        for message in messages(&bytes) {
            let _ = (parse_link(message.body), parse_qdisc(message.body, index), refusal(message.body).is_ok());
        }
        let _ = (parse_link(&bytes), parse_qdisc(&bytes, index), refusal(&bytes).is_ok());
        prop_assert!(attributes(&bytes).map(|(_, value)| value.len() + 4).sum::<usize>() <= bytes.len());
    }

    #[test]
    fn an_interface_with_one_wrong_byte_is_read_or_refused(at in 0usize..80, byte: u8) {
        let mut bytes = nic();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        let _ = parse_link(&bytes);
    }

    #[test]
    fn an_interface_is_read_as_it_was_written(mtu: u32, queues: u32, kind in "[a-z]{1,15}") {
        let info = nested(&[(IFLA_INFO_KIND, kind.clone().into_bytes())]);
        let with = [(IFLA_MTU, number(mtu)), (IFLA_LINKINFO, info), (IFLA_NUM_TX_QUEUES, number(queues))];
        let link = parse_link(&body(&[0; LINK_BYTES], &with)).unwrap();
        prop_assert_eq!((link.mtu_bytes, link.transmit_queues, link.kind), (Some(mtu), Some(queues), Some(kind)));
    }
}

#[test]
fn the_loopback_of_this_kernel_is_read() {
    let link = match link("lo") {
        Ok(link) => link,
        Err(error) => return skipped("rtnetlink: the_loopback_of_this_kernel_is_read", &error.to_string()),
    };
    let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
    assert_eq!((link.index, link.mtu_bytes.unwrap().to_string().as_str()), (1, mtu.trim()));
    assert!(link.gso_max_bytes.is_some_and(|bytes| bytes > 0));
    assert_eq!(super::link("no-such-nic").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    assert_eq!(super::link("").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    let all = qdiscs("lo").unwrap();
    assert_eq!(all.iter().filter(|qdisc| qdisc.parent == ROOT).count(), 1, "{all:?}");
}

#[test]
fn sizes_and_the_discipline_of_a_device_are_changed() {
    // The thread stays in its new network for the rest of its life.
    let tried = std::thread::spawn(|| {
        let why = |what: &str, error: io::Error| format!("{what}: {error}");
        let _home = crate::namespace::Namespaces::make().map_err(|e| why("no namespaces, which takes root", e))?;
        let _device = crate::tun::open("tun8").map_err(|e| why("no TUN device", e))?;
        let now = || link("tun8").unwrap();
        assert_eq!((now().kind.as_deref(), now().mtu_bytes), (Some("tun"), Some(1_500)));
        set_size("tun8", Size::Mtu, 1_400).unwrap();
        set_size("tun8", Size::GsoMax, 30_000).unwrap();
        set_size("tun8", Size::GroIpv4Max, 40_000).unwrap();
        assert_eq!(
            (now().mtu_bytes, now().gso_max_bytes, now().gro_ipv4_max_bytes),
            (Some(1_400), Some(30_000), Some(40_000))
        );
        assert!(set_size("tun8", Size::Mtu, 1).is_err());
        replace_qdisc("tun8", "pfifo", ROOT, 0x0001_0000).unwrap();
        let root = qdiscs("tun8").unwrap().into_iter().find(|qdisc| qdisc.parent == ROOT).unwrap();
        assert_eq!((root.kind.as_str(), root.handle), ("pfifo", 0x0001_0000));
        assert!(replace_qdisc("tun8", "no_such_kind", ROOT, 0).is_err());
        Ok(())
    });
    if let Err(why) = tried.join().unwrap() {
        let why: String = why;
        skipped("rtnetlink: sizes_and_the_discipline_of_a_device_are_changed", &why);
    }
}
