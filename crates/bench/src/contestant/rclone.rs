//! rclone: its client to its own WebDAV server, in clear.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Contestant, JobCommand, Role};
use crate::job::{Data, Job};

/// rclone.
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
        let mut command: Vec<String> = ["rclone", "serve", "webdav", "-q", "--addr"].map(String::from).into();
        command.extend([format!("127.0.0.1:{port}")]);
        command.push(root.display().to_string());
        Ok(Some(command))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let verb = match job.data {
            Data::Zeros { .. } => return None,
            Data::File { .. } => "copyto",
            Data::Tree { .. } => "copy",
        };
        let url = format!(":webdav,url=\"http://127.0.0.1:{}\":{}/copy", job.port, job.target_below_root());
        let source = job.source.display().to_string();
        Some(
            JobCommand::of(["rclone", verb, "-q", "--transfers", "4", &source, &url])
                .with_copy(job.target.join("copy")),
        )
    }
}
