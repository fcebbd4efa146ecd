//! The host as a whole: its clock, its services, its limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::yes_or_no;
use crate::host::{Host, HostError, HostResult, sysctl};

/// The file of this program.
const OWN_FILE: &str = "90-longhaul.conf";
/// The directory of that file.
const OWN_DIRECTORY: &str = "/etc/sysctl.d";
/// The directories of sysctl files, in order of precedence among files of one name (sysctl.d(5)).
const SYSCTL_D: [&str; 4] = [OWN_DIRECTORY, "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];
const SYSCTL_CONF: &str = "/etc/sysctl.conf";
/// The values in force do not tell whether they were set by hand.
const NO_OWN_FILE: &str =
    "this program has no file in /etc/sysctl.d: values that were set without --persist are lost at a restart";

/// A fact of the host; none where it has no such name.
pub(super) fn fact(host: &dyn Host, name: &str) -> Option<HostResult<String>> {
    Some(match name {
        "clock_synchronised" => host.clock().and_then(|(synchronised, _)| yes_or_no(synchronised)),
        "clock_error_s" => host.clock().map(|(_, error_s)| format!("{error_s:.6}")),
        "virtualisation" => virtualisation(host),
        "steal_share" => steal(host),
        "irqbalance_active" => active(host, "irqbalance").and_then(yes_or_no),
        "service_cpus" => status(host, "Cpus_allowed_list"),
        "memlock_limit" => limit(host, "Max locked memory"),
        "nofile_limit" => limit(host, "Max open files"),
        "tuned_profile" => tuned(host),
        "settings_persistent" => persistent(host),
        "sysctl_files_conflict" => conflict(host).and_then(yes_or_no),
        _ => return None,
    })
}

/// `none`, or the kind of virtual machine. A container has the kind of the machine below it.
fn virtualisation(host: &dyn Host) -> HostResult<String> {
    match host.first_output_line("systemd-detect-virt", &["--vm"]) {
        Ok(kind) if !kind.is_empty() => Ok(kind),
        // Without systemd, the processors report whether they are virtual; the kind is not known.
        _ => {
            let info = host.read(Path::new("/proc/cpuinfo"))?;
            let flags = info.lines().find(|line| line.starts_with("flags"));
            let flags = flags.ok_or_else(|| {
                HostError::Failed("/proc/cpuinfo does not say whether this machine is virtual".into())
            })?;
            Ok(if flags.split_whitespace().any(|flag| flag == "hypervisor") { "unknown" } else { "none" }.into())
        }
    }
}

/// Whether this is a physical machine.
pub(crate) fn is_physical(host: &dyn Host) -> HostResult<bool> {
    virtualisation(host).map(|kind| kind == "none")
}

/// The share of all processor time since the host started that a hypervisor took.
fn steal(host: &dyn Host) -> HostResult<String> {
    let text = host.read(Path::new("/proc/stat"))?;
    let first = text.lines().next().unwrap_or_default();
    // A field that is not a number must not shift the others.
    let times: Option<Vec<f64>> =
        first.split_whitespace().skip(1).map(|time| time.parse::<u64>().ok().map(|t| t as f64)).collect();
    let all: f64 = times.iter().flatten().take(8).sum();
    match times.as_ref().and_then(|times| times.get(7)) {
        Some(stolen) if all > 0.0 => Ok(format!("{:.4}", stolen / all)),
        _ => Err(HostError::Failed("/proc/stat has an unexpected format".into())),
    }
}

/// Whether a service of the system runs.
fn active(host: &dyn Host, service: &str) -> HostResult<bool> {
    match host.first_output_line("systemctl", &["is-active", service]) {
        Ok(state) => Ok(state == "active"),
        // Without systemd: whether there is a process of that name.
        Err(_) => {
            let all = host.list(Path::new("/proc"))?;
            let is_service = |pid: &String| {
                pid.bytes().all(|b| b.is_ascii_digit())
                    && host.read(&Path::new("/proc").join(pid).join("comm")).is_ok_and(|name| name == service)
            };
            Ok(all.iter().any(is_service))
        }
    }
}

/// A line of this process's status.
fn status(host: &dyn Host, key: &str) -> HostResult<String> {
    let text = host.read(Path::new("/proc/self/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.map(|value| value.trim().to_owned()).ok_or(HostError::Absent)
}

/// A soft limit of this process: a service has the limits of its unit.
fn limit(host: &dyn Host, name: &str) -> HostResult<String> {
    let text = host.read(Path::new("/proc/self/limits"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or(HostError::Absent)?;
    line.split_whitespace().next().map(str::to_owned).ok_or(HostError::Absent)
}

/// The active profile of tuned; `none` where there is none, or no tuned.
fn tuned(host: &dyn Host) -> HostResult<String> {
    match host.read(Path::new("/etc/tuned/active_profile")) {
        Ok(profile) if !profile.is_empty() => Ok(profile),
        Ok(_) | Err(HostError::Absent) => Ok("none".into()),
        Err(why) => Err(why),
    }
}

/// Names and values of a sysctl file (sysctl.d(5)).
pub(crate) fn settings(text: &str) -> Vec<(String, String)> {
    let setting = |line: &str| {
        let line = line.trim().trim_start_matches('-');
        let (name, value) = line.split_once('=').filter(|_| !line.starts_with(['#', ';']))?;
        // Slashes and dots are interchangeable.
        let name = name.trim().replace('/', ".");
        Some((name, value.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    text.lines().filter_map(setting).collect()
}

/// Whether the values in this program's file are in force.
fn persistent(host: &dyn Host) -> HostResult<String> {
    let own = match host.read(&Path::new(OWN_DIRECTORY).join(OWN_FILE)) {
        Ok(text) => settings(&text),
        Err(HostError::Absent) => return Err(HostError::Failed(NO_OWN_FILE.into())),
        Err(why) => return Err(why),
    };
    for (name, value) in &own {
        match sysctl(host, name, None) {
            Ok(current) if current == *value => {}
            Ok(_) | Err(HostError::Absent) => return yes_or_no(false),
            Err(why) => return Err(why),
        }
    }
    yes_or_no(true)
}

/// The sysctl files that are read after this program's, in the order of reading: by name, each from the first directory that has it; then
/// the file that is usually read last.
fn files_read_later(host: &dyn Host) -> HostResult<Vec<PathBuf>> {
    let mut by_name = BTreeMap::new();
    for directory in SYSCTL_D {
        let names = match host.list(Path::new(directory)) {
            Ok(names) => names,
            Err(HostError::Absent) => continue,
            Err(why) => return Err(why),
        };
        for name in names.into_iter().filter(|name| name.as_str() > OWN_FILE && name.ends_with(".conf")) {
            let path = Path::new(directory).join(&name);
            by_name.entry(name).or_insert(path);
        }
    }
    Ok(by_name.into_values().chain([PathBuf::from(SYSCTL_CONF)]).collect())
}

/// Whether a file that is read later sets one of this program's values to something else.
fn conflict(host: &dyn Host) -> HostResult<bool> {
    let own: BTreeMap<String, String> =
        settings(&host.read(&Path::new(OWN_DIRECTORY).join(OWN_FILE))?).into_iter().collect();
    let mut last = own.clone();
    for path in files_read_later(host)? {
        match host.read(&path) {
            Ok(text) => last.extend(settings(&text).into_iter().filter(|(name, _)| own.contains_key(name))),
            Err(HostError::Absent) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(last != own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_files_are_parsed() {
        let text = "# a comment\nnet.core.rmem_max = 1\n-net/ipv4/tcp_rmem=4096   87380\t6291456\n;x=1\nno line\n";
        let wanted = [("net.core.rmem_max", "1"), ("net.ipv4.tcp_rmem", "4096 87380 6291456")];
        assert_eq!(settings(text), wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn facts_of_the_host_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        };
        write("proc/stat", "cpu  10 0 10 70 0 0 0 10 0 0\n");
        write(
            "proc/self/limits",
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024        4096        files\n\
             Max locked memory         unlimited   unlimited   bytes\n",
        );
        write("proc/cpuinfo", "flags\t\t: fpu hypervisor sse\n");
        let host = crate::host::Recorded::new(dir.path());
        let says = |name: &str| fact(&host, name).unwrap();
        assert_eq!(says("steal_share"), Ok("0.1000".into()));
        assert_eq!((says("nofile_limit"), says("memlock_limit")), (Ok("1024".into()), Ok("unlimited".into())));
        assert_eq!((says("virtualisation"), is_physical(&host)), (Ok("unknown".into()), Ok(false)));
        assert_eq!(says("tuned_profile"), Ok("none".into()));
        assert_eq!(says("sysctl_files_conflict"), Err(HostError::Absent), "this program has no file");
        let persistent = says("settings_persistent");
        assert!(matches!(&persistent, Err(HostError::Failed(why)) if why.contains("--persist")), "{persistent:?}");
        write("etc/sysctl.d/90-longhaul.conf", "net.core.rmem_max = 2\n");
        write("etc/sysctl.d/99-others.conf", "net.core.rmem_max = 1\n");
        write("proc/sys/net/core/rmem_max", "1\n");
        assert_eq!((says("sysctl_files_conflict"), says("settings_persistent")), (Ok("yes".into()), Ok("no".into())));
        for path in ["etc/sysctl.d/99-others.conf", "proc/sys/net/core/rmem_max"] {
            std::fs::write(dir.path().join(path), [0xFF]).unwrap();
        }
        assert!(
            says("sysctl_files_conflict").is_err() && says("settings_persistent").is_err(),
            "files that cannot be read"
        );
    }

    #[test]
    fn the_last_file_wins_and_hides_others_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        };
        let host = crate::host::Recorded::new(dir.path());
        let conflict = || conflict(&host);
        write("etc/sysctl.d/90-longhaul.conf", "net.core.rmem_max = 2\nvm.swappiness = 10\n");
        write("usr/lib/sysctl.d/50-default.conf", "net.core.rmem_max = 1\n");
        assert_eq!(conflict(), Ok(false), "it is read before this program's file");
        write("usr/lib/sysctl.d/95-vendor.conf", "net.core.rmem_max = 1\n");
        assert_eq!(conflict(), Ok(true));
        write("run/sysctl.d/95-vendor.conf", "kernel.panic = 1\n");
        assert_eq!(conflict(), Ok(false), "one of its name in /run hides it");
        write("run/sysctl.d/96-other.conf", "vm/swappiness = 60\n");
        assert_eq!(conflict(), Ok(true));
        write("etc/sysctl.d/99-site.conf", "vm.swappiness = 10\n");
        assert_eq!(conflict(), Ok(false), "the last file sets the value of this program");
        write("etc/sysctl.conf", "vm.swappiness = 30\n");
        assert_eq!(conflict(), Ok(true));
    }

    #[test]
    fn a_container_on_a_physical_host_is_physical() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("say")).unwrap();
        std::fs::write(dir.path().join("say/systemd-detect-virt"), "docker\n").unwrap();
        std::fs::write(dir.path().join("say/systemd-detect-virt --vm"), "none\n").unwrap();
        assert_eq!(is_physical(&crate::host::Recorded::new(dir.path())), Ok(true));
    }
}
