//! Caltech's FDT, if `--fdt-jar` gives its jar. From memory to memory (`-nettest`) FDT runs until it is stopped and cannot
//! move a given amount, so it takes no part in that scenario.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Contestant, FDT, JobCommand, Role};
use crate::job::{Data, Job};

/// FDT.
#[derive(Clone, Debug)]
pub struct Fdt {
    /// Its jar.
    pub jar: Option<PathBuf>,
}

impl Fdt {
    fn command(&self) -> Vec<String> {
        let jar = self.jar.as_ref().map(|jar| jar.display().to_string()).unwrap_or_default();
        vec!["java".into(), "-jar".into(), jar]
    }
}

impl Contestant for Fdt {
    fn name(&self) -> &'static str {
        FDT
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["java".into(), self.jar.clone().unwrap_or_else(|| "fdt.jar (--fdt-jar)".into())]
    }

    fn server(&self, _root: &Path, _state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        let mut command = self.command();
        command.extend(["-p".into(), port.to_string()]);
        Ok(Some(command))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let mut job_command = JobCommand { command: self.command(), copy: None };
        job_command.command.extend(["-c", "127.0.0.1", "-p"].map(String::from));
        job_command.command.extend([job.port.to_string(), "-P".into(), "4".into()]);
        match job.data {
            Data::Zeros { .. } => return None,
            Data::File { .. } => {}
            Data::Tree { .. } => job_command.command.push("-r".into()),
        }
        job_command.command.extend(["-d".into(), job.target.display().to_string(), job.source.display().to_string()]);
        Some(job_command.with_copy(job.target.join(job.source.file_name()?)))
    }
}
