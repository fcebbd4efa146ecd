//! Facts of the nodes of this host for `longhaul support`. For a file with secrets only its existence is reported. Another user may
//! have put files into the state directory, so no link is followed, and only parsed values are copied.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use auth::{Grants, Policy};
use jiff::Timestamp;
use model::units::Bytes;
use rustix::fs::OFlags;
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use super::redact::REMOVED;
use crate::commands::{serve, tool};
use crate::job_control;

/// The most bytes that are read of a file.
const BYTES_MAX: u64 = 4 << 20;
/// The most names that are listed.
const NAMES_MAX: usize = 5_000;
/// The depth to which a directory is listed: a state directory is less deep.
const DEPTH_MAX: usize = 4;
/// The most lines of the log.
const LOG_LINES: &str = "3000";
/// The fields of a known path that are copied.
const PATH_FIELDS: [&str; 5] = ["v", "capacity_bit_s", "streams", "min_rtt_s", "loss"];

/// The content of a regular file; none for anything else.
pub fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::take(file, BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn text(path: &Path) -> Option<String> {
    String::from_utf8(read(path)?).ok()
}

/// The settings: the keys that `serve` knows, with their values. Comments and unknown keys may hold secrets, and are left out.
pub fn settings(path: Option<&Path>) -> String {
    let Some(path) = path else { return "(no settings file: --config names one)\n".into() };
    let head = format!("# {}\n", path.display());
    let table = match fs::read_to_string(path).map(|text| text.parse::<toml::Table>()) {
        Err(error) => return format!("{head}# {error}\n"),
        // The error is left out: it quotes the file.
        Ok(Err(_)) => return format!("{head}# it is not TOML\n"),
        Ok(Ok(table)) => table,
    };
    let known = |key: &String| serve::KEYS.contains(&key.as_str());
    let (known, unknown): (Vec<_>, Vec<_>) = table.iter().partition(|(key, _)| known(key));
    let out = known.iter().map(|(key, value)| format!("{key} = {value}\n")).collect::<String>();
    let others = unknown.len();
    let others =
        if others > 0 { format!("# {others} more, which serve does not know: {REMOVED}\n") } else { String::new() };
    format!("{head}{out}{others}")
}

/// The directories that the settings export, with their file systems and free space.
pub fn exports(config: Option<&Path>) -> String {
    let table = config.and_then(|path| fs::read_to_string(path).ok()?.parse::<toml::Table>().ok()).unwrap_or_default();
    let texts = table.get("export").and_then(toml::Value::as_array).into_iter().flatten();
    let exports = texts.filter_map(|text| text.as_str()?.parse::<node::Export>().ok());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut out = String::new();
    for export in exports {
        let mode = if export.writable { "rw" } else { "ro" };
        let _ = writeln!(out, "{} ({mode}) {}: {}", export.name, export.dir.display(), space(&export.dir, &mounts));
    }
    if out.is_empty() { "(the settings file names no directory)\n".into() } else { out }
}

fn space(dir: &Path, mounts: &str) -> String {
    let metadata = match fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) => return error.to_string(),
    };
    let file_system = match rustix::fs::statvfs(dir) {
        Ok(file_system) => file_system,
        Err(error) => return error.to_string(),
    };
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(file_system.f_frsize));
    let free = bytes(file_system.f_bavail);
    let all = bytes(file_system.f_blocks);
    let mode = metadata.mode() & 0o7777;
    let uid = metadata.uid();
    let gid = metadata.gid();
    let mount = mount(dir, mounts).unwrap_or_default();
    format!("mode {mode:04o}, owner {uid}:{gid}, {free} of {all} free, {} files free; {mount}", file_system.f_favail)
}

/// Type, options and source of the mount that a directory is on (proc_pid_mountinfo(5)).
fn mount(dir: &Path, mounts: &str) -> Option<String> {
    let dir = fs::canonicalize(dir).ok()?;
    let mount_point = |line: &&str| line.split(' ').nth(4).map(PathBuf::from).filter(|point| dir.starts_with(point));
    let line = mounts
        .lines()
        .filter(|line| mount_point(line).is_some())
        .max_by_key(|line| mount_point(line).map(|p| p.as_os_str().len()))?;
    let (mount, system) = line.split_once(" - ")?;
    let options = mount.split(' ').nth(5)?;
    Some(format!("{options} on {system}"))
}

/// The number of grants and rules, without any name.
pub fn access(state: &Path) -> String {
    let mut out = String::new();
    let now = Timestamp::now().as_second();
    for (name, what) in [("grants.toml", "grants"), ("errand-grants.toml", "grants for single jobs")] {
        let grants = text(&state.join(name)).map(|text| toml::from_str::<Grants>(&text));
        let _ = match grants {
            None => writeln!(out, "{what}: none that this user may read"),
            Some(Err(_)) => writeln!(out, "{what}: {name} cannot be read"),
            Some(Ok(grants)) => {
                let expired = grants.list.iter().filter(|g| g.expires.is_some_and(|at| at <= now)).count();
                writeln!(out, "{what}: {}, of which {expired} have expired", grants.list.len())
            }
        };
    }
    let policy = text(&state.join("access.toml")).map(|text| Policy::parse(&text));
    let _ = match policy {
        None => writeln!(out, "access.toml: none in the state directory that this user may read"),
        Some(Err(_)) => writeln!(out, "access.toml: it cannot be read; the node's log says why"),
        Some(Ok(policy)) => writeln!(
            out,
            "access.toml: {} rules, {} issuers, {} audiences; call-out: {}; macaroons: {}",
            policy.rules.len(),
            policy.issuers.len(),
            policy.audiences.len(),
            policy.callout.is_some(),
            policy.macaroons.on
        ),
    };
    let fingerprint = read(&state.join("identity.cert.der"))
        .and_then(|bytes| engine::identity::fingerprint(&CertificateDer::from(bytes)));
    let shown =
        fingerprint.map_or_else(|| "none that this user may read".into(), |fingerprint| fingerprint.to_string());
    let _ = writeln!(out, "identity: {shown}");
    out
}

/// The files of the state directory, by name.
pub fn state(state: &Path) -> String {
    let mut rows = BTreeMap::new();
    list(state, state, 0, &mut rows);
    let head = format!("{}\nmode  owner        bytes changed              name\n", state.display());
    let more = if rows.len() >= NAMES_MAX { "(and more)\n" } else { "" };
    head + &rows.into_values().collect::<String>() + more
}

fn list(root: &Path, dir: &Path, depth: usize, rows: &mut BTreeMap<PathBuf, String>) {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            rows.insert(dir.to_owned(), format!("{}: {error}\n", dir.display()));
            return;
        }
    };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let path = entry.path();
        if rows.len() >= NAMES_MAX {
            return;
        }
        let changed = Timestamp::from_second(metadata.mtime()).map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let below = path.strip_prefix(root).unwrap_or(&path);
        let slash = if metadata.is_dir() { "/" } else { "" };
        let mode = metadata.mode() & 0o7777;
        let owner = format!("{}:{}", metadata.uid(), metadata.gid());
        let size = metadata.len();
        let changed = changed.unwrap_or_default();
        let row = format!("{mode:04o} {owner:>11} {size:>11} {changed} {}{slash}\n", below.display());
        rows.insert(path.clone(), row);
        if metadata.is_dir() && depth < DEPTH_MAX {
            list(root, &path, depth + 1, rows);
        }
    }
}

/// The known paths: one line each, with numbers only.
pub fn paths(state: &Path) -> String {
    let mut lines = Vec::new();
    for path in fs::read_dir(state.join("paths")).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let peer = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Some(Ok(Value::Object(facts))) = read(&path).map(|bytes| serde_json::from_slice(&bytes)) else { continue };
        let fact =
            |name: &&str| facts.get(*name).filter(|value| value.is_number()).map(|v| ((*name).into(), v.clone()));
        let mut line: serde_json::Map<String, Value> = PATH_FIELDS.iter().filter_map(fact).collect();
        line.insert("peer".into(), peer.into());
        lines.push(format!("{}\n", Value::Object(line)));
    }
    lines.sort();
    lines.concat()
}

/// The running jobs, as their processes report them.
pub fn jobs(state: &Path) -> String {
    let line = |job: &model::v1::Transfer| serde_json::to_string(job).map(|text| text + "\n").unwrap_or_default();
    job_control::list(state).iter().map(line).collect()
}

/// The processes with this state directory: command line, limits, resources.
pub fn nodes(state: &Path) -> String {
    let mut out = String::new();
    for path in fs::read_dir(state.join("run")).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Some(pid) = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok()) else { continue };
        let proc = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let words = String::from_utf8_lossy(&proc("cmdline")).replace('\0', " ");
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let _ = writeln!(out, "== process {pid}: {words}\ndescriptors open: {descriptors}");
        for name in ["status", "limits", "cgroup"] {
            let _ = writeln!(out, "-- {name}\n{}", String::from_utf8_lossy(&proc(name)).trim_end());
        }
    }
    if out.is_empty() { "(no process runs with this state directory)\n".into() } else { out }
}

/// The state of the unit in systemd. Only these properties: the unit's environment may hold keys.
pub fn unit(unit: &str) -> String {
    let wanted = "--property=Id,LoadState,ActiveState,SubState,StatusText,Result,NRestarts,MainPID,ExecMainStartTimestamp,\
                  FragmentPath,DropInPaths,User,LimitNOFILE,TasksCurrent,TasksMax,MemoryCurrent,MemoryMax,CPUUsageNSec,\
                  ReadWritePaths,ProtectSystem,CapabilityBoundingSet";
    tool::output_with_command("systemctl", &["show", "--no-pager", wanted, "--", unit])
}

/// The recent log of the unit.
pub fn log(unit: &str) -> String {
    let words = ["--quiet", "--no-pager", "--output=short-iso", "--lines", LOG_LINES, "--unit", unit];
    tool::output_with_command("journalctl", &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_serve_knows_are_copied() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.toml");
        fs::write(&path, "# hidden-1\nexport = [\"d=/srv\"]\nplain = true\npassphrase = \"hidden-2\"\n").unwrap();
        let out = settings(Some(&path));
        assert!(
            out.contains("export = [\"d=/srv\"]") && out.contains("plain = true") && out.contains("1 more"),
            "{out}"
        );
        assert!(!out.contains("hidden"), "{out}");
        fs::write(&path, "password hidden-3").unwrap();
        assert!(!settings(Some(&path)).contains("hidden"));
        assert!(settings(None).contains("--config"));
    }

    #[test]
    fn no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), b"x").unwrap();
        std::os::unix::fs::symlink("f", dir.path().join("link")).unwrap();
        assert_eq!(read(&dir.path().join("f")).as_deref(), Some(&b"x"[..]));
        assert!(read(&dir.path().join("link")).is_none() && read(dir.path()).is_none());
    }

    #[test]
    fn the_mount_of_a_directory_is_the_nearest() {
        let mounts = "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/a rw\n\
                      2 1 0:2 / /proc rw,nosuid - proc proc rw\n";
        assert_eq!(mount(Path::new("/proc"), mounts).as_deref(), Some("rw,nosuid on proc proc rw"));
        assert_eq!(mount(Path::new("/usr"), mounts).as_deref(), Some("rw,relatime on ext4 /dev/a rw"));
    }

    #[test]
    fn only_the_numbers_of_known_paths_are_copied() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("paths")).unwrap();
        fs::write(
            dir.path().join("paths/192.0.2.1.json"),
            "{\"v\":1,\"loss\":0.5,\"other\":\"hidden\",\"streams\":\"x\"}",
        )
        .unwrap();
        assert_eq!(paths(dir.path()), "{\"loss\":0.5,\"peer\":\"192.0.2.1\",\"v\":1}\n");
    }
}
