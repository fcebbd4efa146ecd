//! A site as programs see it: names, settings, a share of the processors.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use lab::fixture::{self, LabLock};
use lab::{Error, Lab, Scenario};

use super::probe::{address, address_of, arrives, counts, not_judged, udp};

fn output_of(lab: &Lab, site: &str, program: &str, words: &[&str]) -> String {
    let output = lab.command(site, program).unwrap().args(words).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn sites_know_each_other_by_name() {
    let text = "[site.cape-town]\n[site.london]\n[site.london.interface.eth1]\n\
                [path.cape-town-london]\nrtt = \"2ms\"\nhops = 2";
    let Some(lab) = fixture::up("sites_know_each_other_by_name", text) else { return };
    let own = rustix::system::uname();
    assert_eq!(output_of(&lab, "cape-town", "uname", &["-n"]), "cape-town");
    assert_eq!(output_of(&lab, "london", "uname", &["-n"]), "london");
    assert_eq!(rustix::system::uname().nodename(), own.nodename(), "and this host's is as it was");
    let found = |family: &str, name: &str| {
        let text = output_of(&lab, "cape-town", "getent", &[family, name]);
        text.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(found("ahostsv4", "london"), address(&lab, "london").to_string());
    assert_eq!(found("ahostsv6", "london"), address_of(&lab, "london", 0, true).to_string());
    assert_eq!(found("ahostsv4", "london-eth1"), address_of(&lab, "london", 1, false).to_string());
    assert_eq!(found("ahostsv4", "cape-town-london-hop2"), "10.78.1.2");
    let started = Instant::now();
    let unknown = lab.command("london", "getent").unwrap().args(["hosts", "nobody.example"]).output().unwrap();
    assert!(!unknown.status.success() && started.elapsed() < Duration::from_secs(4), "without asking a name server");
    assert_eq!(output_of(&lab, "london", "sh", &["-c", "ls /sys/class/net | xargs"]), "eth0 eth1 lo");
    assert_eq!(output_of(&lab, "london", "sh", &["-c", "echo $LONGHAUL_LAB"]), "fixture");
    assert!(matches!(lab.site("paris"), Err(Error::NoSite { .. })));
}

#[test]
fn sysctl_settings_are_applied() {
    let text = "[site.a]\nmtu = 1400\nsysctl = { \"net.ipv4.tcp_sack\" = 0 }\n[site.b]\nprofile = \"stock\"\n\
                [path.a-b]\nrtt = \"2ms\"";
    let Some(lab) = fixture::up("sysctl_settings_are_applied", text) else { return };
    let read = |site: &str, path: &str| output_of(&lab, site, "cat", &[path]);
    let setting = |site: &str, name: &str| read(site, &format!("/proc/sys/net/ipv4/{name}"));
    assert_eq!((setting("a", "tcp_sack"), setting("b", "tcp_sack")), ("0".into(), "1".into()));
    assert_eq!(setting("a", "tcp_slow_start_after_idle"), "0");
    assert_eq!(setting("b", "tcp_slow_start_after_idle"), "1", "as the kernel has it");
    assert!(setting("a", "tcp_rmem").ends_with("1073741824"));
    assert_eq!(read("a", "/sys/class/net/eth0/mtu"), "1400");
}

/// Directories of control groups for a site of this name.
fn groups(site: &str) -> Vec<std::path::PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let words = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let roots = words.filter(|words| words[2].starts_with("cgroup")).map(|words| words[1].to_owned());
    let entries = roots.flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten());
    let ours = |name: &str| name.starts_with("longhaul-lab-") && name.ends_with(&format!("-{site}"));
    let found = entries.filter(|entry| entry.file_name().to_str().is_some_and(ours));
    found.map(|entry| entry.path()).collect()
}

fn is_without_groups(test: &str, error: &Error) -> bool {
    let without = matches!(error, Error::Share { .. });
    if without {
        not_judged(test, &error.to_string());
    }
    without
}

/// Networks of this process's threads and children come and go; networks that descriptors hold stay.
fn networks_held() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().contains("net:[")).count()
}

#[test]
fn a_wrong_setting_is_reported_and_leaves_nothing_behind() {
    let test = "a_wrong_setting_is_reported_and_leaves_nothing_behind";
    if !fixture::has_prerequisites(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let _lock = LabLock::take().unwrap();
    for (setting, share) in
        [("net.ipv4.no_such_thing", ""), ("net.ipv4.tcp_sack", ""), ("net.core.x", "cpu_share = 0.5")]
    {
        let text = format!(
            "[site.fine]\n[site.leftover]\n{share}\nsysctl = {{ \"{setting}\" = \"many\" }}\n[path.fine-leftover]\nrtt = \"2ms\""
        );
        let networks_before = networks_held();
        let Err(error) = Lab::up("wrong", &Scenario::read(&text).unwrap(), dir.path()) else {
            panic!("{setting} was set");
        };
        assert_eq!(networks_held(), networks_before);
        assert_eq!(groups("leftover"), Vec::<std::path::PathBuf>::new());
        if !is_without_groups(test, &error) {
            let message = error.to_string();
            assert!(message.contains("leftover") && message.contains(setting) && message.contains("many"), "{message}");
        }
    }
}

#[test]
fn a_site_has_its_share_of_the_processors() {
    let test = "a_site_has_its_share_of_the_processors";
    if !fixture::has_prerequisites(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let text = "[site.slow]\ncpu_share = 0.3\n[site.b]\n[path.slow-b]\nrtt = \"2ms\"";
    let _lock = LabLock::take().unwrap();
    let lab = match Lab::up("share", &Scenario::read(text).unwrap(), dir.path()) {
        Err(error) if is_without_groups(test, &error) => return,
        other => other.unwrap(),
    };
    assert_eq!(groups("slow").len(), 1);
    let mut busy = lab.command("slow", "sh").unwrap();
    let mut busy = busy.args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().unwrap();
    // Ticks of 10 ms, in user and system mode.
    let ticks = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let words: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
        words[11].parse::<u64>().unwrap() + words[12].parse::<u64>().unwrap()
    };
    std::thread::sleep(Duration::from_millis(200));
    let started = Instant::now();
    let before = ticks(busy.id());
    std::thread::sleep(Duration::from_secs(2));
    let used = (ticks(busy.id()) - before) as f64 / 100.0 / started.elapsed().as_secs_f64();
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(used < 0.36, "{used} of a processor");
    // With other programs on the machine it may get less.
    if used < 0.24 {
        not_judged(test, &format!("it had {used:.2} of a processor"));
    }
    drop(lab);
    assert_eq!(groups("slow").len(), 0);
}

/// Labs share no address space.
#[test]
fn two_labs_may_have_the_same_addresses() {
    if !fixture::has_prerequisites("two_labs_may_have_the_same_addresses") {
        return;
    }
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _lock = LabLock::take().unwrap();
    let scenario = Scenario::read("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"2ms\"").unwrap();
    let [one, two] = [("one", &one), ("two", &two)].map(|(name, dir)| Lab::up(name, &scenario, dir.path()).unwrap());
    assert_eq!(address(&one, "a"), address(&two, "a"));
    two.set("a-b", &[("down", "true")]).unwrap();
    let (near, far) = (udp(&one, "a"), udp(&one, "b"));
    assert!(arrives(&near, &far, 10, Duration::from_secs(2)));
    assert_eq!([counts(&one, "a-b", 0).segments, counts(&two, "a-b", 0).segments], [1, 0]);
    assert_ne!(one.networks(), two.networks());
}
