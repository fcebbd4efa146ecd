//! The description of the machine that was measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

/// The first line that a command prints; empty if it cannot be run.
pub fn first_line(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// The date in the form that reports show.
pub fn date() -> String {
    first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"])
}

/// Processors, memory and kernel, and whether the machine is virtual. `network` describes what connects the two ends.
///
/// # Errors
/// The kernel does not report processors or memory.
pub fn describe(network: &str) -> Result<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let field = |name: &str| cpu.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
    let model = field("model name").trim_start_matches([' ', '\t', ':']);
    let processors = std::thread::available_parallelism()?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kib = memory.lines().find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let kind = if field("flags").split(' ').any(|flag| flag == "hypervisor") { "virtual machine" } else { "machine" };
    Ok(format!(
        "{kind}, {network}; no physical NIC. {processors} processors ({model}), {} GiB, Linux {}",
        kib.unwrap_or_default() >> 20,
        first_line("uname", &["-r"]),
    ))
}

/// The file system of a path.
pub fn file_system(path: &Path) -> String {
    first_line("findmnt", &["-n", "-o", "FSTYPE", "-T", &path.display().to_string()])
}

/// docs/results of the repository that this program was built from.
pub fn repository_results() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("docs/results")
}
