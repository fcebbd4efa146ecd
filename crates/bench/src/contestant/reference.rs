//! The references: `cp`, which crosses no network, and a loop that only creates, writes and renames.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{BARE_LOOP, Contestant, JobCommand, Role};
use crate::data::file_name;
use crate::job::{Data, Job};

/// `cp`.
#[derive(Clone, Copy, Debug)]
pub struct Cp;

impl Contestant for Cp {
    fn name(&self) -> &'static str {
        "cp (no network)"
    }

    fn role(&self) -> Role {
        Role::Reference
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["cp".into()]
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        if let Data::Zeros { .. } = job.data {
            return None;
        }
        let copy = job.target.join("copy");
        let source = job.source.display().to_string();
        let target = copy.display().to_string();
        // Without `--reflink=never`, some file systems would share the blocks instead of copying them.
        Some(JobCommand::of(["cp", "-r", "--reflink=never", &source, &target]).with_copy(copy))
    }
}

/// One thread that creates, writes and renames, and reads nothing: the rate that the file system itself reaches.
#[derive(Clone, Debug)]
pub struct BareLoop {
    /// This program, which runs the loop with `--bare-loop`.
    pub bench: PathBuf,
}

impl Contestant for BareLoop {
    fn name(&self) -> &'static str {
        BARE_LOOP
    }

    fn role(&self) -> Role {
        Role::Reference
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec![self.bench.clone()]
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let Data::Tree { files, bytes_each } = job.data else { return None };
        let bench = self.bench.display().to_string();
        let target = job.target.display().to_string();
        Some(JobCommand::of([bench, "--bare-loop".into(), target, files.to_string(), bytes_each.to_string()]))
    }
}

/// Runs the loop of [`BareLoop`].
///
/// # Errors
/// A file cannot be written or renamed.
pub fn bare_loop(target: &Path, files: u64, bytes_each: u64) -> Result<()> {
    let content = vec![0x5a; bytes_each as usize];
    for at in 0..files {
        let file = target.join(file_name(at));
        if at % crate::data::FILES_PER_DIRECTORY == 0 {
            fs::create_dir_all(file.parent().unwrap_or(target))?;
        }
        let part = file.with_extension("part");
        File::create(&part)?.write_all(&content)?;
        fs::rename(&part, &file)?;
    }
    Ok(())
}
