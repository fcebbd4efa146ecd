//! XRootD: xrdcp to xrootd, anonymous and in clear.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Contestant, JobCommand, Role};
use crate::job::{Data, Job};

/// XRootD.
#[derive(Clone, Copy, Debug)]
pub struct Xrootd;

impl Contestant for Xrootd {
    fn name(&self) -> &'static str {
        "xrdcp"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["xrdcp".into(), "xrootd".into()]
    }

    fn server(&self, root: &Path, state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        let configuration = state.join("xrootd.cfg");
        let own = state.join("own");
        fs::create_dir_all(&own)?;
        crate::data::open_to_all(&own)?;
        let text = format!(
            "all.export {}\nxrd.port {port}\nall.adminpath {own}\nall.pidpath {own}\n",
            root.display(),
            own = own.display()
        );
        fs::write(&configuration, text)?;
        let mut command: Vec<String> = ["xrootd", "-I", "v4", "-n", "bench", "-c"].map(String::from).into();
        command.push(configuration.display().to_string());
        command.extend(["-l".into(), own.join("log").display().to_string()]);
        if rustix::process::geteuid().is_root() {
            // xrootd refuses to serve as root.
            command.extend(["-R", "nobody"].map(String::from));
        }
        Ok(Some(command))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let source = job.source.display().to_string();
        let url = format!("root://127.0.0.1:{}/{}/", job.port, job.target.display());
        let name = job.source.file_name().context("a source has a name").ok()?;
        let job_command = match job.data {
            Data::Zeros { .. } => return None,
            Data::File { .. } => JobCommand::of(["xrdcp", "--silent", &source, &url]),
            Data::Tree { .. } => JobCommand::of(["xrdcp", "--silent", "-r", "--parallel", "4", &source, &url]),
        };
        Some(job_command.with_copy(job.target.join(name)))
    }
}
