//! The contestants: a small trait, and the list. A contestant makes commands; it starts and measures nothing.

pub mod fdt;
pub mod gridftp;
pub mod iperf3;
pub mod longhaul;
pub mod rclone;
pub mod reference;
pub mod ssh;
pub mod xrootd;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::job::Job;
use crate::pki::Pki;

/// Longhaul with its payload in clear, as all peers send it.
pub const LONGHAUL: &str = "Longhaul";
/// Longhaul as it is by default: sealed.
pub const SEALED: &str = "Longhaul, sealed";
/// Caltech's Fast Data Transfer.
pub const FDT: &str = "FDT";
/// iperf3, which measures a network and moves no files.
pub const IPERF3: &str = "iperf3";
/// Create, write, rename, and nothing else.
pub const BARE_LOOP: &str = "bare loop";

/// The role of a contestant in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Longhaul itself.
    Ours,
    /// It moves data over a network, in clear.
    Peer,
    /// It moves data over a network, encrypted.
    EncryptedPeer,
    /// It moves data without a network, or without files: the rate that the machine itself reaches.
    Reference,
}

/// The command of one job, and where its copy will be.
#[derive(Clone, Debug, Default)]
pub struct JobCommand {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The copy to compare with the source, if there is one.
    pub copy: Option<PathBuf>,
}

impl JobCommand {
    /// Makes a command without a copy to compare.
    pub fn of<S: Into<String>>(command: impl IntoIterator<Item = S>) -> JobCommand {
        JobCommand { command: command.into_iter().map(Into::into).collect(), copy: None }
    }

    /// Sets where the copy will be.
    pub fn with_copy(self, copy: PathBuf) -> JobCommand {
        JobCommand { copy: Some(copy), ..self }
    }
}

/// A command with more in its environment.
fn with_environment(variables: &[(&str, &Path)], command: Vec<String>) -> Vec<String> {
    let set = variables.iter().map(|(name, value)| format!("{name}={}", value.display()));
    ["env".to_owned()].into_iter().chain(set).chain(command).collect()
}

/// One participant of the comparison.
pub trait Contestant {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// Its role in the comparison.
    fn role(&self) -> Role;

    /// The programs that it needs.
    fn programs(&self) -> Vec<PathBuf>;

    /// The command of its server, which shows `root` and listens on `port` of the loopback address.
    ///
    /// # Errors
    /// Its configuration cannot be written.
    fn server(&self, _root: &Path, _state: &Path, _port: u16) -> Result<Option<Vec<String>>> {
        Ok(None)
    }

    /// The command of one job; none if it does not do such jobs.
    fn job_command(&self, job: &Job) -> Option<JobCommand>;
}

/// The programs that contestants cannot find by name.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The longhaul binary.
    pub longhaul: PathBuf,
    /// This program.
    pub bench: PathBuf,
    /// FDT's jar, if there is one.
    pub fdt_jar: Option<PathBuf>,
    /// The certificates of servers and clients that encrypt.
    pub pki: Pki,
}

/// All contestants, in the order of a round.
pub fn all(programs: &Programs) -> Vec<Box<dyn Contestant>> {
    vec![
        Box::new(longhaul::Longhaul { binary: programs.longhaul.clone(), is_plain: true }),
        Box::new(longhaul::Longhaul { binary: programs.longhaul.clone(), is_plain: false }),
        Box::new(gridftp::GridFtp { is_tuned: true }),
        Box::new(gridftp::GridFtp { is_tuned: false }),
        Box::new(xrootd::Xrootd),
        Box::new(rclone::Rclone),
        Box::new(fdt::Fdt { jar: programs.fdt_jar.clone() }),
        Box::new(gridftp::PrivateGridFtp { pki: programs.pki.clone() }),
        Box::new(xrootd::XrootdTls { pki: programs.pki.clone() }),
        Box::new(rclone::RcloneTls { pki: programs.pki.clone() }),
        Box::new(ssh::Ssh { client: ssh::SshClient::Scp }),
        Box::new(ssh::Ssh { client: ssh::SshClient::Rsync }),
        Box::new(iperf3::Iperf3),
        Box::new(reference::Cp),
        Box::new(reference::BareLoop { bench: programs.bench.clone() }),
    ]
}

/// A program's file: the path itself, or the file that is found in PATH or in the directories of servers.
pub fn find_program(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return fs::metadata(program).is_ok().then(|| program.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    directories.map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// The first program of a contestant that is not installed, as a sentence; none where all are installed.
pub fn missing(contestant: &dyn Contestant) -> Option<String> {
    let programs = contestant.programs();
    let absent = programs.iter().find(|program| find_program(program).is_none())?;
    Some(format!("{} is not installed", absent.file_name().unwrap_or_default().to_string_lossy()))
}
