//! `longhaul support`: collects the facts that a support desk needs in one archive without secrets.
//!
//! Two measures keep secrets out. Only facts without secrets are collected: for a file with secrets, only that it exists. And
//! [`Redactor`] removes from every text the secrets that it knows, and text that looks like a secret.

mod backup;
mod host;
mod node;
mod redact;
mod restore;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use model::Exit;
use model::fault::Fault;
use model::units::Bytes;
use serde::Serialize;

use self::redact::Redactor;
use crate::args::{Common, Support, SupportAction, SupportDump};
use crate::commands::installed_node::InstalledNode;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// A file of the archive.
struct Member {
    name: &'static str,
    /// What the file holds, for the user who sends it.
    about: &'static str,
    text: String,
}

/// The node that the facts are about.
struct Subject {
    node: InstalledNode,
    unit: String,
}

#[derive(Serialize)]
struct SupportReport<'a> {
    v: u32,
    event: &'static str,
    path: String,
    bytes: u64,
    members: Vec<MemberReport<'a>>,
}

#[derive(Serialize)]
struct MemberReport<'a> {
    name: &'a str,
    bytes: usize,
    about: &'a str,
}

impl Subject {
    fn of(dump: &SupportDump, common: &Common, settings: &Settings) -> Result<Subject, Failure> {
        let node = InstalledNode::find(dump.config.as_ref(), common, settings)?;
        Ok(Subject { node, unit: dump.unit.clone() })
    }

    /// Collects all facts, before redaction.
    fn collect(&self) -> Vec<Member> {
        let member = |name, about, text| Member { name, about, text };
        vec![
            member("version.txt", "the program", host::version()),
            member("host.txt", "system, kernel, processors, memory, clock", host::host()),
            member("sysctls.txt", "settings of the kernel that matter to transfers", host::sysctls()),
            member("network.txt", "links, addresses, routes, the kernel's counters", host::network()),
            member("limits.txt", "limits of this process, and of open files in all", host::limits()),
            member("tune-audit.jsonl", "the audit of `longhaul tune`, for 100 ms", host::audit()),
            member("settings.toml", "the node's settings", node::settings(self.node.config.as_deref())),
            member(
                "exports.txt",
                "file systems of the exports, and their free space",
                node::exports(self.node.config.as_deref()),
            ),
            member("access.txt", "the numbers of keys and rules", node::access(&self.node.state)),
            member("state.txt", "names, sizes, modes and times in the state directory", node::state(&self.node.state)),
            member("paths.jsonl", "measurements of paths by earlier transfers", node::paths(&self.node.state)),
            member("jobs.jsonl", "jobs that run now", node::jobs(&self.node.state)),
            member("nodes.txt", "nodes that run now", node::nodes(&self.node.state)),
            member("unit.txt", "how systemd sees the node", node::unit(&self.unit)),
            member("log.txt", "the node's recent log", node::log(&self.unit)),
        ]
    }

    /// A redactor that knows the secrets of this host.
    fn redactor(&self, common: &Common) -> Redactor {
        let mut redactor = Redactor::default();
        for (name, value) in std::env::vars_os() {
            let name = name.to_string_lossy().to_ascii_lowercase();
            if redact::is_secret_name(&name) || name.contains("key") {
                value.to_string_lossy().split(',').for_each(|secret| redactor.add(secret.trim().as_bytes()));
            }
        }
        for file in ["identity.key.der", "macaroon.key"] {
            node::read(&self.node.state.join(file)).iter().for_each(|bytes| redactor.add(bytes));
        }
        let grants = ["grants.toml", "errand-grants.toml"].map(|name| self.node.state.join(name));
        for file in grants.iter().chain(&common.key_file) {
            let bytes = node::read(file).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            text.split(['"', '\'', '\n'])
                .filter(|word| word.len() >= 32)
                .for_each(|word| redactor.add(word.as_bytes()));
        }
        redactor
    }
}

/// Runs the command.
///
/// # Errors
/// No state directory is known, or the file cannot be written.
pub fn run(support: &Support, common: &Common, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match &support.action {
        None => dump(&support.dump, common, settings, printer),
        Some(SupportAction::Backup { out }) => {
            let state = InstalledNode::find(None, common, settings)?.state;
            backup::run(&state, out.as_deref(), printer)
        }
        Some(SupportAction::Restore { file }) => {
            let state = InstalledNode::find(None, common, settings)?.state;
            restore::run(file, &state, printer)
        }
    }
}

fn dump(dump: &SupportDump, common: &Common, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let subject = Subject::of(dump, common, settings)?;
    let redactor = subject.redactor(common);
    let mut members = subject.collect();
    members.iter_mut().for_each(|member| member.text = redactor.redact(&member.text));
    let now = Timestamp::now();
    let name = file_name("support", now);
    members.insert(0, Member { name: "README.txt", about: "this list", text: readme(&name, &members) });
    let out = dump.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let written = write(&out, &name, &members, now);
    let bytes = written.map_err(|error| cannot_write(&out, &error))?;
    print_members(&out, bytes, &members, printer);
    Ok(Exit::Done)
}

/// The name of a file that this command writes by default, without its end.
fn file_name(what: &str, now: Timestamp) -> String {
    format!("longhaul-{what}-{}-{}", host::name(), now.strftime("%Y%m%dT%H%M%SZ"))
}

fn cannot_write(out: &Path, error: &dyn std::fmt::Display) -> Failure {
    let message = format!("cannot write {}: {error} (--out says where to write)", out.display());
    Failure { exit: Exit::Storage, fault: Fault::Storage, message }
}

fn print_members(out: &Path, bytes: u64, members: &[Member], printer: &Printer) {
    let each = |member: &Member| (member.name, member.text.len(), member.about);
    if printer.is_json() {
        let report = |member| {
            let (name, bytes, about) = each(member);
            MemberReport { name, bytes, about }
        };
        let members = members.iter().map(report).collect();
        let path = out.display().to_string();
        return printer.object(&SupportReport { v: 1, event: "support", path, bytes, members });
    }
    printer.line(&format!("wrote {} ({}), which only you can read:", out.display(), Bytes(bytes)));
    for (name, bytes, about) in members.iter().map(each) {
        printer.line(&format!("  {name:<17} {:>10}  {about}", Bytes(bytes as u64).to_string()));
    }
    printer.line("Secrets were left out. Names of hosts, people, files and addresses were not: check the file before you send it on.");
}

fn readme(name: &str, members: &[Member]) -> String {
    let list = members.iter().map(|member| format!("{:<17} {}\n", member.name, member.about));
    format!(
        "{name}: what `longhaul support` of version {} found.\n\n{}\n{} replaces each secret, and each text that \
         might be one. Identity, keys, grants, the\ncontents of journals and data are not here.\n",
        env!("CARGO_PKG_VERSION"),
        list.collect::<String>(),
        redact::REMOVED,
    )
}

/// Writes a new file that only its owner can read. Returns its size in bytes.
fn write(out: &Path, name: &str, members: &[Member], now: Timestamp) -> io::Result<u64> {
    let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(out)?;
    let written = archive(&file, name, members, now).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = std::fs::remove_file(out);
        return Err(error);
    }
    Ok(file.metadata()?.len())
}

fn archive(file: &std::fs::File, name: &str, members: &[Member], now: Timestamp) -> io::Result<()> {
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for member in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(member.text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now.as_second().unsigned_abs());
        tar.append_data(&mut header, format!("{name}/{}", member.name), member.text.as_bytes())?;
    }
    tar.into_inner()?.finish()?.flush()
}
