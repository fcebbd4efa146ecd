//! Caltech's FDT, where its jar is given: `--fdt-jar`. From memory to memory (`-nettest`) it runs until it is stopped and
//! moves no given amount, so it has no such job here.

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

    fn order(&self, job: &Job) -> Option<JobCommand> {
        let mut order = JobCommand { command: self.command(), copy: None };
        order.command.extend(["-c", "127.0.0.1", "-p"].map(String::from));
        order.command.extend([job.port.to_string(), "-P".into(), "4".into()]);
        match job.data {
            Data::Zeros { .. } => return None,
            Data::File { .. } => {}
            Data::Tree { .. } => order.command.push("-r".into()),
        }
        order.command.extend(["-d".into(), job.target.display().to_string(), job.source.display().to_string()]);
        Some(order.onto(job.target.join(job.source.file_name()?)))
    }
}
