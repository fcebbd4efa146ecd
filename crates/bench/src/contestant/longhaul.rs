//! Longhaul itself, in clear and sealed. All else is as by default: block digests, and streams by the number of processors.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Contestant, JobCommand, LONGHAUL, Role, SEALED};
use crate::job::{Data, Job};

/// Longhaul, pushing to a node.
#[derive(Clone, Debug)]
pub struct Longhaul {
    /// The longhaul binary.
    pub binary: PathBuf,
    /// Whether the payload is sent in clear.
    pub is_plain: bool,
}

/// The most memory that each side may take, MiB: 64 and four blocks of 1 MiB per stream. By default there is one stream per
/// processor, at least 2 and at most 8.
pub fn memory_mib_max() -> f64 {
    let streams = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8));
    64.0 + streams as f64 * 4.0
}

impl Contestant for Longhaul {
    fn name(&self) -> &'static str {
        if self.is_plain { LONGHAUL } else { SEALED }
    }

    fn role(&self) -> Role {
        Role::Ours
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec![self.binary.clone()]
    }

    fn server(&self, root: &Path, state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        let mut command: Vec<String> = vec![self.binary.display().to_string()];
        command.extend(["serve", "--quiet", "--anonymous", "rw", "--export"].map(String::from));
        command.push(format!("d={}:rw", root.display()));
        command.extend(["--state".into(), state.join("node").display().to_string()]);
        command.extend(["--listen".into(), format!("127.0.0.1:{port}")]);
        command.extend(self.is_plain.then(|| "--plain".into()));
        Ok(Some(command))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let mut job_command = JobCommand::of([self.binary.display().to_string()]);
        job_command.command.extend(["--state".into(), job.state.join("client").display().to_string()]);
        job_command.command.extend(["--quiet", "cp"].map(String::from));
        job_command.command.extend(self.is_plain.then(|| "--plain".into()));
        let node = format!("lh://127.0.0.1:{}", job.port);
        if let Data::Zeros { bytes } = job.data {
            job_command.command.extend(["--checksum", "none"].map(String::from));
            job_command.command.extend([format!("zero:{bytes}"), format!("{node}/null:")]);
            return Some(job_command);
        }
        if matches!(job.data, Data::Tree { .. }) {
            job_command.command.push("-r".into());
        }
        job_command.command.push(job.source.display().to_string());
        job_command.command.push(format!("{node}/d/{}/copy", job.target_below_root()));
        Some(job_command.with_copy(job.target.join("copy")))
    }
}
