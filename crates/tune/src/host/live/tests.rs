//! This host: every name of the table has a reader, and a written value can be read back.

use super::*;
use crate::audit::Audit;
use crate::rule::{ChangeMethod, Read, rules};
use crate::subjects::Subjects;
use crate::target::Target;

const DOES_NOT_KNOW: &str = "this release does not know";

/// Names that facts use in addition to those of the table.
const NAMES_OF_FACTS: [&str; 10] = [
    "ring.rx.max",
    "ring.tx.max",
    "channels.combined.max",
    "pcie.max_read_request_bytes",
    "pcie.payload_reduced",
    "stat.pause_frames",
    "rss.spread",
    "ntuple.rules",
    "module.rx_dbm",
    "timestamping.on",
];

/// Reports a skipped test on stderr, past the harness, which hides the output of tests that pass.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED {test}: {why}");
}

fn has_reader(result: &HostResult<String>) -> bool {
    !matches!(result, Err(HostError::Failed(why)) if why.starts_with(DOES_NOT_KNOW))
}

#[test]
fn every_name_of_the_table_has_a_reader() {
    for what in NAMES_OF_FACTS {
        assert!(has_reader(&Live.ethtool("lo", what)), "{what}");
    }
    for what in ["qdisc.fq_maxrate_bit_s", "tso_max_size"] {
        assert!(has_reader(&Live.netlink("lo", what)), "{what}");
    }
    for rule in rules().unwrap() {
        let (result, written) = match &rule.read {
            Read::Ethtool(what) => (Live.ethtool("lo", what), Live.set_ethtool("no-such-nic", what, "off")),
            Read::Netlink(what) => (Live.netlink("lo", what), Live.set_netlink("no-such-nic", what, "fq")),
            _ => continue,
        };
        assert!(has_reader(&result), "{}: {result:?}", rule.id);
        if rule.set != ChangeMethod::Manual {
            assert!(has_reader(&written.clone().map(|()| String::new())), "{}: {written:?}", rule.id);
            assert!(written.is_err(), "{}: there is no such NIC", rule.id);
        }
    }
}

#[test]
fn this_host_can_be_read() {
    let release = Live.read(Path::new("/proc/sys/kernel/osrelease")).unwrap();
    assert!(release.contains('.') && !release.ends_with('\n'), "{release:?}");
    assert_eq!(Live.read(Path::new("/proc/no/such/file")), Err(HostError::Absent));
    assert!(Live.list(Path::new("/sys/class/net")).unwrap().contains(&"lo".to_owned()));
    assert!(Live.link(Path::new("/proc/self/ns/net")).unwrap().starts_with("net:["));
    assert_eq!(Live.netlink("lo", "mtu"), Live.read(Path::new("/sys/class/net/lo/mtu")));
    assert_eq!(Live.netlink("no-such-nic", "mtu"), Err(HostError::Absent));
    assert_eq!(Live.ethtool("lo", "feature.loopback"), Ok("on".into()));
    assert_eq!(Live.ethtool("lo", "feature.loopback.fixed"), Ok("yes".into()));
    assert_eq!(Live.ethtool("lo", "feature.no-such-switch"), Err(HostError::Absent));
    assert_eq!(Live.ethtool("lo", "ring.rx"), Err(HostError::Absent));
    assert!(!Live.may_write(Path::new("/proc/version")) && !Live.may_write(Path::new("/proc/no/such/file")));
    assert!(matches!(Live.clock(), Ok(_) | Err(HostError::Denied)));
}

#[test]
fn an_audit_of_this_host_finds_a_reader_for_every_name() {
    let subjects = Subjects::find(&Live, &["lo".into()], Vec::new());
    let found = Audit::of(&Live, &rules().unwrap(), &Target::default(), &subjects).findings;
    let unread = found.iter().find(|its| its.note.as_ref().is_some_and(|note| note.starts_with(DOES_NOT_KNOW)));
    assert!(!found.is_empty() && unread.is_none(), "{unread:?}");
}

#[test]
fn own_files_are_written_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sysctl.d/90-longhaul.conf");
    let text = "# odd   blanks \nnet.core.rmem_max = 1\n";
    Live.write(&path, text).unwrap();
    assert_eq!(Live.read_exact(&path), Ok(text.into()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    Live.write(&path, "").unwrap();
    assert_eq!(Live.read_exact(&path), Ok(String::new()), "nothing of the old text is left");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else either");
    Live.remove(&path).unwrap();
    Live.remove(&path).unwrap();
    assert_eq!(Live.read_exact(&path), Err(HostError::Absent));
    fs::write(&path, vec![b'x'; FILE_BYTES_MAX as usize + 1]).unwrap();
    assert!(matches!(Live.read_exact(&path), Err(HostError::Failed(_))), "a part of a file is not returned");
    let absent = Live.write(Path::new("/proc/sys/no/such"), "1");
    assert_eq!(absent, Err(HostError::Absent), "no file of the kernel is created");
}

/// A timeout that suffices on a busy machine.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

#[test]
fn the_first_line_of_a_program_is_read_in_limited_time() {
    assert_eq!(first_output_line("sh", &["-c", "echo inactive; echo more; exit 3"], LONG), Ok("inactive".into()));
    assert_eq!(Live.first_output_line("no-such-program", &[]), Err(HostError::Absent));
    assert!(matches!(first_output_line("true", &[], LONG), Err(HostError::Failed(_))));
    let began = std::time::Instant::now();
    assert!(matches!(first_output_line("sleep", &["30"], SHORT), Err(HostError::Failed(_))));
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[test]
fn whole_output_counts_only_if_the_program_succeeds() {
    assert_eq!(whole_output("sh", &["-c", "echo one; echo two"], LONG), Ok("one\ntwo".into()));
    assert_eq!(whole_output("true", &[], LONG), Ok(String::new()));
    assert!(matches!(whole_output("sh", &["-c", "echo part; exit 1"], LONG), Err(HostError::Failed(_))));
    assert_eq!(Live.whole_output("no-such-program", &[]), Err(HostError::Absent));
    let began = std::time::Instant::now();
    let closed = "exec 1>&-; sleep 30";
    for slow in ["sleep 30", "echo; sleep 30", closed] {
        assert!(matches!(whole_output("sh", &["-c", slow], SHORT), Err(HostError::Failed(_))), "{slow}");
    }
    assert!(began.elapsed() < Duration::from_secs(25));
    let endless = whole_output("sh", &["-c", "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"], LONG);
    assert!(matches!(endless, Err(HostError::Failed(_))));
    assert!(Live.page_bytes().is_ok_and(|bytes| bytes >= 4_096 && bytes.is_power_of_two()));
}

#[test]
fn capabilities_are_read_from_the_status() {
    assert!(has_capability("Name:\tx\nCapEff:\t000001ffffffffff\n", CAP_NET_ADMIN));
    assert!(!has_capability("CapEff:\t0000000000000000\nCapPrm:\t000001ffffffffff\n", CAP_NET_ADMIN));
    assert!(!has_capability("CapEff:\tmany\n", CAP_NET_ADMIN) && !has_capability("", CAP_NET_ADMIN));
}

/// Makes a pair of devices with four queues, in a network namespace of this thread.
fn make_queues() -> Result<(), String> {
    let why = |what: &str, error: io::Error| format!("{what}: {error}");
    sys::namespace::Namespaces::make().map_err(|e| why("no namespaces, which takes root", e))?;
    let words = "link add name q0 numtxqueues 4 numrxqueues 4 type veth peer name q1 numtxqueues 4 numrxqueues 4";
    let made = Command::new("ip").args(words.split(' ')).output().map_err(|e| why("no program ip", e))?;
    let message = String::from_utf8_lossy(&made.stderr).into_owned();
    if made.status.success() { Ok(()) } else { Err(format!("no pair of devices: {message}")) }
}

#[test]
fn queues_of_a_device_are_changed_and_changed_back() {
    // The thread stays in its new namespace until it ends.
    let tried = std::thread::spawn(|| {
        make_queues()?;
        assert!(Live.may_administer());
        assert_eq!(Live.ethtool("q0", "driver").unwrap().split(' ').next(), Some("veth"));
        assert_eq!(Live.netlink("q0", "kind"), Ok("veth".into()));
        let set = |what: &str, value: &str| {
            Live.set_netlink("q0", what, value).unwrap();
            assert_eq!(Live.netlink("q0", what), Ok(value.to_owned()), "{what}");
        };
        set("qdisc", "mq");
        set("qdisc.children", "pfifo");
        set("qdisc.children", "bfifo");
        assert_eq!(Live.netlink("q0", "qdisc"), Ok("mq".into()));
        assert!(Live.set_netlink("q0", "qdisc.children", "fq pfifo").is_err());
        set("qdisc", "pfifo");
        assert!(Live.set_netlink("q0", "qdisc.children", "fq").is_err(), "there is no mq");
        for (what, value) in [("mtu", "9000"), ("gso_max_size", "60000"), ("gro_max_size", "61000")] {
            set(what, value);
        }
        for (what, value) in [("gso_ipv4_max_size", "50000"), ("gro_ipv4_max_size", "51000"), ("txqlen", "77")] {
            set(what, value);
        }
        let most = Live.ethtool("q0", "channels.combined.max");
        assert!(matches!(most, Ok(_) | Err(HostError::Absent)), "{most:?}");
        for state in ["off", "on"] {
            Live.set_ethtool("q0", "feature.rx-gro", state).unwrap();
            assert_eq!(Live.ethtool("q0", "feature.rx-gro"), Ok(state.to_owned()));
        }
        assert_eq!(Live.ethtool("q0", "channels.rx.max"), Ok("4".into()));
        Live.set_ethtool("q0", "channels.rx", "3").unwrap();
        assert_eq!(Live.ethtool("q0", "channels.rx"), Ok("3".into()));
        Ok(())
    });
    if let Err(why) = tried.join().unwrap() {
        let why: String = why;
        skipped("queues_of_a_device_are_changed_and_changed_back", &why);
    }
}

#[test]
fn pacing_by_fq_is_read() {
    let tried = std::thread::spawn(|| {
        make_queues()?;
        Live.set_netlink("q0", "qdisc", "fq").map_err(|e| format!("the kernel has no fq: {e}"))?;
        assert_eq!(Live.netlink("q0", "qdisc.fq_maxrate_bit_s"), Ok("unlimited".into()));
        let words = "qdisc change dev q0 root fq maxrate 10mbit";
        let changed = Command::new("tc").args(words.split(' ')).status().map_err(|e| format!("no program tc: {e}"))?;
        assert!(changed.success());
        assert_eq!(Live.netlink("q0", "qdisc.fq_maxrate_bit_s"), Ok("10000000".into()));
        Ok(())
    });
    if let Err(why) = tried.join().unwrap() {
        let why: String = why;
        skipped("pacing_by_fq_is_read", &why);
    }
}
