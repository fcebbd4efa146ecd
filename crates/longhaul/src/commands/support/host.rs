//! Facts of this host for `longhaul support`: those that every local user may read.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use model::v1::tune::AuditRequest;

use crate::commands::{tool, tune};

/// Settings below /proc/sys that matter to transfers.
const SYSCTLS: [&str; 36] = [
    "fs/file-max",
    "fs/nr_open",
    "fs/protected_hardlinks",
    "kernel/pid_max",
    "kernel/threads-max",
    "net/core/bpf_jit_enable",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/default_qdisc",
    "net/core/dev_weight",
    "net/core/netdev_budget",
    "net/core/netdev_budget_usecs",
    "net/core/netdev_max_backlog",
    "net/core/optmem_max",
    "net/core/rmem_default",
    "net/core/rmem_max",
    "net/core/somaxconn",
    "net/core/wmem_default",
    "net/core/wmem_max",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_allowed_congestion_control",
    "net/ipv4/tcp_available_congestion_control",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_ecn",
    "net/ipv4/tcp_mem",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_no_metrics_save",
    "net/ipv4/tcp_notsent_lowat",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_window_scaling",
    "net/ipv4/tcp_wmem",
    "vm/dirty_bytes",
    "vm/dirty_ratio",
];

/// The text of a file, or why it cannot be read.
fn file(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|error| format!("({error})"));
    format!("== {path}\n{}\n\n", text.trim_end())
}

/// This host's name, with only the characters that a file name may have.
pub fn name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let replace = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(replace).take(64).collect();
    if name.is_empty() { "host".into() } else { name }
}

/// Version and build of the program, its user, and which variables are set.
pub fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let arch = std::env::consts::ARCH;
    let os = std::env::consts::OS;
    let built = if cfg!(debug_assertions) { "for tests" } else { "for use" };
    let mut text = format!("longhaul {version}, {arch}-{os}, built {built}\n");
    if let Ok(program) = std::env::current_exe() {
        let metadata = fs::metadata(&program).ok();
        let bytes = metadata.as_ref().map_or(0, fs::Metadata::len);
        let changed = metadata.and_then(|metadata| Timestamp::try_from(metadata.modified().ok()?).ok());
        let changed = changed.map_or_else(String::new, |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let _ = writeln!(text, "{} {bytes} bytes, of {changed}", program.display());
    }
    let _ = writeln!(text, "at {}", Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ"));
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let _ = writeln!(text, "run by user {user}, group {group}");
    // The values of these variables may be secrets, so only whether they are set is reported.
    for name in
        ["LONGHAUL_KEY", "LONGHAUL_STATE", "LONGHAUL_LAB", "BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_USER_PROXY"]
    {
        let set = if std::env::var_os(name).is_some() { "set" } else { "not set" };
        let _ = writeln!(text, "environment: {name} is {set}");
    }
    text
}

/// System, processors, memory, clock.
pub fn host() -> String {
    let uname = rustix::system::uname();
    let words = [uname.sysname(), uname.nodename(), uname.release(), uname.version(), uname.machine()];
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let mut text = format!("{}\n\n", words.join(" "));
    for path in ["/etc/os-release", "/proc/loadavg", "/proc/uptime", "/proc/meminfo"] {
        text += &file(path);
    }
    for name in ["sys_vendor", "product_name"] {
        text += &file(&format!("/sys/devices/virtual/dmi/id/{name}"));
    }
    // One processor's entry stands for all of them.
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let first = processors.split("\n\n").next().unwrap_or_default();
    let _ = writeln!(
        text,
        "== {} processors for this process; the first of /proc/cpuinfo\n{first}\n",
        sys::limits::processors()
    );
    match sys::clock_quality::read() {
        Ok(clock) => {
            let _ = writeln!(text, "clock: {clock:?}");
        }
        Err(error) => {
            let _ = writeln!(text, "clock: {error}");
        }
    }
    text
}

/// Kernel settings that matter to transfers.
pub fn sysctls() -> String {
    let line = |name: &&str| {
        let value = fs::read_to_string(Path::new("/proc/sys").join(name));
        let value = value.map_or_else(|error| format!("({error})"), |value| value.trim_end().replace('\t', " "));
        format!("{} = {value}\n", name.replace('/', "."))
    };
    SYSCTLS.iter().map(line).collect()
}

/// Links, addresses, routes, counters.
pub fn network() -> String {
    let ip: [&[&str]; 4] = [&["-s", "link"], &["address"], &["route"], &["-6", "route"]];
    let outputs = ip.iter().map(|words| tool::output_with_command("ip", words));
    let files = ["/proc/net/sockstat", "/proc/net/snmp", "/proc/net/netstat"].map(file);
    outputs.chain(files).collect()
}

/// Limits of this process, and the pressure on processors and disks.
pub fn limits() -> String {
    ["/proc/self/limits", "/proc/sys/fs/file-nr", "/proc/self/cgroup", "/proc/pressure/cpu", "/proc/pressure/io"]
        .map(file)
        .concat()
}

/// The audit of the host's settings, as lines of JSON.
pub fn audit() -> String {
    let ask = AuditRequest { rate_bit_s: None, rtt_s: 0.1, role: "dtn".into() };
    match tune::audit_lines(&ask) {
        Ok(lines) => lines.into_iter().map(|line| line + "\n").collect(),
        Err(refusal) => format!("({})\n", refusal.reason),
    }
}
