//! rclone: its client to its own WebDAV server, in clear and over TLS.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Contestant, JobCommand, Role};
use crate::job::{Data, Job};
use crate::pki::Pki;

fn server(root: &Path, port: u16) -> Vec<String> {
    let mut command: Vec<String> = ["rclone", "serve", "webdav", "-q", "--addr"].map(String::from).into();
    command.extend([format!("127.0.0.1:{port}"), root.display().to_string()]);
    command
}

fn job_command(job: &Job, origin: &str) -> Option<JobCommand> {
    let verb = match job.data {
        Data::Zeros { .. } => return None,
        Data::File { .. } => "copyto",
        Data::Tree { .. } => "copy",
    };
    let url = format!(":webdav,url=\"{origin}:{}\":{}/copy", job.port, job.target_below_root());
    let source = job.source.display().to_string();
    let command = JobCommand::of(["rclone", verb, "-q", "--transfers", "4", &source, &url]);
    Some(command.with_copy(job.target.join("copy")))
}

/// rclone in clear.
#[derive(Clone, Copy, Debug)]
pub struct Rclone;

impl Contestant for Rclone {
    fn name(&self) -> &'static str {
        "rclone WebDAV"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["rclone".into()]
    }

    fn server(&self, root: &Path, _state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        Ok(Some(server(root, port)))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        job_command(job, "http://127.0.0.1")
    }
}

/// rclone over TLS.
#[derive(Clone, Debug)]
pub struct RcloneTls {
    /// The host's certificate.
    pub pki: Pki,
}

impl Contestant for RcloneTls {
    fn name(&self) -> &'static str {
        "rclone https"
    }

    fn role(&self) -> Role {
        Role::EncryptedPeer
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["rclone".into()]
    }

    fn server(&self, root: &Path, _state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        let mut command = server(root, port);
        command.extend(["--cert".into(), self.pki.certificate.display().to_string()]);
        command.extend(["--key".into(), self.pki.key.display().to_string()]);
        Ok(Some(command))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let mut job_command = job_command(job, "https://localhost")?;
        job_command.command.extend(["--ca-cert".into(), self.pki.ca.display().to_string()]);
        Some(job_command)
    }
}
