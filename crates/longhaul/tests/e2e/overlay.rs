//! Virtual networks on one router by policy routing, as `plan` writes it: members reach each other, and nobody else.

use std::process::{Command, Stdio};

use plan::overlay::{MemberPort, policy_routing};

use crate::wait::skipped;

/// A router with four hosts, in namespaces of the test. The rules come from standard input. Each line of the output is a pair of hosts that
/// reach each other by ping.
const SCRIPT: &str = r#"
set -eu
mount -t tmpfs none /run
mount -t sysfs none /sys
echo 1 > /proc/sys/net/ipv4/ip_forward
for n in 1 2 3 4; do
    ip netns add "host$n"
    ip link add "port$n" type veth peer name eth0 netns "host$n"
    ip link set "port$n" up
    ip address add "10.$n.0.1/24" dev "port$n"
    ip -n "host$n" link set lo up
    ip -n "host$n" link set eth0 up
    ip -n "host$n" address add "10.$n.0.2/24" dev eth0
    ip -n "host$n" route add default via "10.$n.0.1"
done
while read -r line; do ip $line; done
for a in 1 2 3 4; do
    for b in 1 2 3 4; do
        [ "$a" = "$b" ] || ! ip netns exec "host$a" ping -q -c 1 -W 2 "10.$b.0.2" > /dev/null || echo "$a $b"
    done
done
"#;

fn reachable_pairs(rules: &[String]) -> String {
    let rules: String = rules.iter().map(|rule| format!("{rule}\n")).collect();
    let mut script = Command::new("unshare")
        .args(["--net", "--mount", "--", "sh", "-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut script.stdin.take().unwrap(), rules.as_bytes()).unwrap();
    let output = script.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn members_of_a_virtual_network_reach_each_other_and_nobody_else() {
    if !rustix::process::geteuid().is_root() {
        return skipped(
            "overlay::members_of_a_virtual_network_reach_each_other_and_nobody_else",
            "namespaces need root",
        );
    }
    let port = |number: u32| MemberPort { interface: format!("port{number}"), prefix: format!("10.{number}.0.0/24") };
    assert_eq!(reachable_pairs(&[]).lines().count(), 12, "without rules everybody reaches everybody");
    let rules = policy_routing(&[vec![port(1), port(2)], vec![port(3), port(4)]]);
    assert_eq!(reachable_pairs(&rules), "1 2\n2 1\n3 4\n4 3\n");
}
