//! Two nodes on one host, each with a MAC, addresses and a TCP/IP stack of its own: the packaged script makes the second one's.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::node::LONGHAUL;
use crate::wait::skipped;

/// The script of the test, in namespaces of its own: a host with a NIC, another host at the end of the cable, and the packaged script. The
/// test checks each line that it prints.
const SCRIPT: &str = r#"
set -eu
mount -t tmpfs none /run
mount -t sysfs none /sys
ip link set lo up
ip netns add far
ip link add nic0 type veth peer name eth0 netns far
ip link set nic0 up
ip address add 192.0.2.10/24 dev nic0
ip -n far link set lo up
ip -n far link set eth0 up
ip -n far address add 192.0.2.30/24 dev eth0
mkdir netns data
printf 'PARENT=nic0\nADDRESS="192.0.2.20/24"\n' > netns/measure.conf
export LONGHAUL_NETNS=$PWD/netns
"$NETNS" start measure
PIDS=
trap 'kill $PIDS; "$NETNS" stop measure' EXIT
cat /sys/class/net/nic0/address
ip netns exec measure cat /sys/class/net/eth0/address
serve() { "$@" "$LONGHAUL" serve --listen "$LISTEN" --export data=data:rw --anonymous rw --state "$STATE" > "$STATE.out" 2> "$STATE.err" & PIDS="$PIDS $!"; }
LISTEN=192.0.2.10:7411 STATE=host serve
LISTEN=192.0.2.20:7411 STATE=second serve ip netns exec measure
until grep -q listening host.out && grep -q listening second.out; do sleep 0.05; done
export LONGHAUL_STATE=$PWD/client
for at in 192.0.2.10 192.0.2.20; do
    ip netns exec far "$LONGHAUL" cp zero:1MB "lh://$at/data/$at" > /dev/null
done
ls -s --block-size=1 data/192.0.2.10 data/192.0.2.20 | wc -l
"$NETNS" start measure 2> /dev/null || echo "there is one already"
"$NETNS" start other 2>&1 || true
"#;

#[test]
fn a_second_node_has_a_stack_of_its_own() {
    let test = "second_node::a_second_node_has_a_stack_of_its_own";
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "namespaces need root");
    }
    let dir = tempfile::tempdir().unwrap();
    let netns = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/longhaul-netns").canonicalize().unwrap();
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--", "sh", "-c", SCRIPT])
        .current_dir(dir.path())
        .env("LONGHAUL", LONGHAUL)
        .env("NETNS", netns)
        .env_remove("LONGHAUL_KEY")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 5, "{printed}");
    assert_ne!(lines[0], lines[1], "each has a MAC of its own");
    assert_eq!((lines[2].trim(), lines[3]), ("2", "there is one already"));
    assert!(lines[4].contains("other.conf does not exist"), "{printed}");
}
