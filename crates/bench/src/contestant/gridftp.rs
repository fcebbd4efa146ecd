//! GridFTP: globus-url-copy to globus-gridftp-server, anonymous and in clear, with defaults and as its users tune it
//! (extended blocks, parallel streams, pipelined commands, concurrent sessions).

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Contestant, GRIDFTP_TUNED, JobCommand, Role};
use crate::job::{Data, Job};

/// GridFTP.
#[derive(Clone, Copy, Debug)]
pub struct GridFtp {
    /// Whether it runs with the options of an experienced user.
    pub is_tuned: bool,
}

impl Contestant for GridFtp {
    fn name(&self) -> &'static str {
        if self.is_tuned { GRIDFTP_TUNED } else { "GridFTP" }
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
        let flags: &[&str] = match (job.data, self.is_tuned) {
            (Data::Zeros { .. }, false) | (Data::File { .. }, false) => &[],
            (Data::Zeros { .. }, true) => &["-fast", "-p", "1"],
            (Data::File { .. }, true) => &["-fast", "-p", "4"],
            (Data::Tree { .. }, false) => &["-r", "-cd"],
            (Data::Tree { .. }, true) => &["-r", "-cd", "-fast", "-pp", "-cc", "4"],
        };
        job_command.command.extend(flags.iter().map(ToString::to_string));
        let server = format!("ftp://127.0.0.1:{}", job.port);
        let source = job.source.display();
        let copy = job.target.join("copy");
        match job.data {
            Data::Zeros { bytes } => {
                job_command.command.extend(["-len".into(), bytes.to_string(), "file:///dev/zero".into()]);
                job_command.command.push(format!("{server}/dev/null"));
                return Some(job_command);
            }
            Data::File { .. } => {
                job_command.command.extend([format!("file://{source}"), format!("{server}{}", copy.display())]);
            }
            Data::Tree { .. } => {
                job_command.command.extend([format!("file://{source}/"), format!("{server}{}/", copy.display())]);
            }
        }
        Some(job_command.with_copy(copy))
    }
}
