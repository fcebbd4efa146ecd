//! iperf3: from memory to memory over one TCP stream, by blocks of 1 MiB.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Contestant, IPERF3, JobCommand, Role};
use crate::job::{Data, Job};

/// iperf3.
#[derive(Clone, Copy, Debug)]
pub struct Iperf3;

impl Contestant for Iperf3 {
    fn name(&self) -> &'static str {
        IPERF3
    }

    fn role(&self) -> Role {
        Role::Reference
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["iperf3".into()]
    }

    fn server(&self, _root: &Path, _state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        Ok(Some(["iperf3", "-s", "-B", "127.0.0.1", "-p", &port.to_string()].map(String::from).into()))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let Data::Zeros { bytes } = job.data else { return None };
        let port = job.port.to_string();
        let bytes = bytes.to_string();
        Some(JobCommand::of(["iperf3", "-c", "127.0.0.1", "-p", &port, "-l", "1M", "-n", &bytes]))
    }
}
