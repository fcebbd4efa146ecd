//! Longhaul itself, in clear and sealed, with its defaults otherwise: block digests on, streams by processors.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Contestant, JobCommand, LONGHAUL, Role, SEALED};
use crate::job::{Data, Job};

/// Longhaul, pushing to a node.
#[derive(Clone, Debug)]
pub struct Longhaul {
    /// The longhaul binary.
    pub binary: PathBuf,
    /// Payload in clear.
    pub is_plain: bool,
}

/// What each side may take: 64 MiB and four blocks of 1 MiB per stream. Streams by default: one per processor, at
/// least 2 and at most 8.
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

    fn order(&self, job: &Job) -> Option<JobCommand> {
        let mut order = JobCommand::of([self.binary.display().to_string()]);
        order.command.extend(["--state".into(), job.state.join("client").display().to_string()]);
        order.command.extend(["--quiet", "cp"].map(String::from));
        order.command.extend(self.is_plain.then(|| "--plain".into()));
        let node = format!("lh://127.0.0.1:{}", job.port);
        if let Data::Zeros { bytes } = job.data {
            order.command.extend(["--checksum", "none"].map(String::from));
            order.command.extend([format!("zero:{bytes}"), format!("{node}/null:")]);
            return Some(order);
        }
        if matches!(job.data, Data::Tree { .. }) {
            order.command.push("-r".into());
        }
        order.command.push(job.source.display().to_string());
        order.command.push(format!("{node}/d/{}/copy", job.below()));
        Some(order.onto(job.target.join("copy")))
    }
}
