//! GridFTP: globus-url-copy to globus-gridftp-server, anonymous and in clear, with defaults and as its users tune it
//! (extended blocks, parallel streams, pipelined commands, concurrent sessions); and the same with certificates, its data encrypted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Contestant, JobCommand, Role, with_environment};
use crate::job::{Data, Job};
use crate::pki::{Pki, USER};

/// GridFTP.
#[derive(Clone, Copy, Debug)]
pub struct GridFtp {
    /// Whether it runs with the options of an experienced user.
    pub is_tuned: bool,
}

impl Contestant for GridFtp {
    fn name(&self) -> &'static str {
        if self.is_tuned { "GridFTP, tuned" } else { "GridFTP" }
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["globus-url-copy".into(), "globus-gridftp-server".into()]
    }

    fn server(&self, _root: &Path, state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        let mut command: Vec<String> = vec!["globus-gridftp-server".into(), "-p".into(), port.to_string()];
        command.extend(["-control-interface", "127.0.0.1", "-data-interface", "127.0.0.1", "-aa"].map(String::from));
        if rustix::process::geteuid().is_root() {
            command.extend(["-anonymous-user", "root", "-allow-root"].map(String::from));
        }
        command.extend(["-d", "ERROR", "-l"].map(String::from));
        command.push(state.join("server.log").display().to_string());
        Ok(Some(command))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let mut job_command = JobCommand::of(["globus-url-copy"]);
        let flags = if self.is_tuned { tuned_flags(job.data) } else { default_flags(job.data) };
        job_command.command.extend(flags.iter().map(ToString::to_string));
        Some(with_places(job_command, job, &format!("ftp://127.0.0.1:{}", job.port)))
    }
}

fn default_flags(data: Data) -> &'static [&'static str] {
    match data {
        Data::Zeros { .. } | Data::File { .. } => &[],
        Data::Tree { .. } => &["-r", "-cd"],
    }
}

fn tuned_flags(data: Data) -> &'static [&'static str] {
    match data {
        Data::Zeros { .. } => &["-fast", "-p", "1"],
        Data::File { .. } => &["-fast", "-p", "4"],
        Data::Tree { .. } => &["-r", "-cd", "-fast", "-pp", "-cc", "4"],
    }
}

/// The command with its source and its target at a server.
fn with_places(mut job_command: JobCommand, job: &Job, server: &str) -> JobCommand {
    let source = job.source.display();
    let copy = job.target.join("copy");
    match job.data {
        Data::Zeros { bytes } => {
            job_command.command.extend(["-len".into(), bytes.to_string(), "file:///dev/zero".into()]);
            job_command.command.push(format!("{server}/dev/null"));
            return job_command;
        }
        Data::File { .. } => {
            job_command.command.extend([format!("file://{source}"), format!("{server}{}", copy.display())]);
        }
        Data::Tree { .. } => {
            job_command.command.extend([format!("file://{source}/"), format!("{server}{}/", copy.display())]);
        }
    }
    job_command.with_copy(copy)
}

/// GridFTP as it is tuned, with its data encrypted (`-dcpriv`).
#[derive(Clone, Debug)]
pub struct PrivateGridFtp {
    /// The certificates of the host and of the user.
    pub pki: Pki,
}

impl Contestant for PrivateGridFtp {
    fn name(&self) -> &'static str {
        "GridFTP -dcpriv"
    }

    fn role(&self) -> Role {
        Role::EncryptedPeer
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["globus-url-copy".into(), "globus-gridftp-server".into()]
    }

    fn server(&self, _root: &Path, state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        let (map, key) = (state.join("gridmap"), state.join("host.key"));
        let user = std::env::var("USER").unwrap_or_else(|_| "root".into());
        fs::write(&map, format!("\"/CN={USER}\" {user}\n"))?;
        // GSI takes a key that only its owner can read.
        fs::copy(&self.pki.key, &key)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400))?;
        let mut command: Vec<String> = vec!["globus-gridftp-server".into(), "-p".into(), port.to_string()];
        command.extend(["-control-interface", "127.0.0.1", "-data-interface", "127.0.0.1"].map(String::from));
        command.extend(rustix::process::geteuid().is_root().then(|| "-allow-root".into()));
        command.extend(["-d", "ERROR", "-l"].map(String::from));
        command.push(state.join("server.log").display().to_string());
        let environment = [
            ("X509_USER_CERT", self.pki.certificate.as_path()),
            ("X509_USER_KEY", &key),
            ("X509_CERT_DIR", &self.pki.directory),
            ("GRIDMAP", &map),
        ];
        Ok(Some(with_environment(&environment, command)))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let [certificate, key] = &self.pki.user;
        let environment =
            [("X509_USER_CERT", certificate.as_path()), ("X509_USER_KEY", key), ("X509_CERT_DIR", &self.pki.directory)];
        let command = vec!["globus-url-copy".to_owned(), "-dcpriv".into()];
        let mut job_command = JobCommand::of(with_environment(&environment, command));
        job_command.command.extend(tuned_flags(job.data).iter().map(ToString::to_string));
        Some(with_places(job_command, job, &format!("gsiftp://localhost:{}", job.port)))
    }
}
