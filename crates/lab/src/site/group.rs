//! A share of the processors for a site: a control group with a quota, of either version of control groups.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::hash::fnv1a;

/// The period of the quota, in microseconds: short, so that a site is slow rather than stuttering.
const PERIOD: u32 = 10_000;

/// A control group.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// A group for a site of the lab in this directory; `share` is in processors.
    ///
    /// # Errors
    /// The control group cannot be made, or its quota cannot be set.
    pub fn new(lab: &Path, site: &str, share: f64) -> Result<Group, Error> {
        let failed = |source| Error::Share { site: site.to_owned(), source };
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(failed)?;
        let none = || failed(io::Error::new(io::ErrorKind::NotFound, "no control groups for processors are mounted"));
        let (root, is_v2) = sys::cgroup::cpu_root(&mounts).ok_or_else(none)?;
        let group = Group(root.join(name(lab, site)));
        match group.make(&root, is_v2, share) {
            Ok(()) => Ok(group),
            Err(error) => {
                group.remove();
                Err(failed(error))
            }
        }
    }

    fn make(&self, root: &Path, is_v2: bool, share: f64) -> io::Result<()> {
        if is_v2 {
            // Enabled already, or refused: then the quota's file is missing below, and that error is reported.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
        }
        match fs::create_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        let quota = (share * f64::from(PERIOD)).max(1_000.0) as u64;
        if is_v2 {
            return fs::write(self.0.join("cpu.max"), format!("{quota} {PERIOD}"));
        }
        fs::write(self.0.join("cpu.cfs_period_us"), PERIOD.to_string())?;
        fs::write(self.0.join("cpu.cfs_quota_us"), quota.to_string())
    }

    /// The group of another process's lab.
    pub fn at(path: &str) -> Group {
        Group(path.into())
    }

    /// The file to which a process writes 0 to enter the group.
    ///
    /// # Errors
    /// The group does not exist any more.
    pub fn open_procs(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.0.join("cgroup.procs"))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes the group, if no process is in it any more.
    pub fn remove(&self) {
        let _ = fs::remove_dir(&self.0);
    }

    /// Removes the groups that an earlier lab in this directory has left. Those with processes in them stay.
    pub fn remove_leftovers(lab: &Path, sites: &[String]) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        if let Some((root, _)) = sys::cgroup::cpu_root(&mounts) {
            sites.iter().for_each(|site| drop(fs::remove_dir(root.join(name(lab, site)))));
        }
    }
}

/// A name that is the same for the same lab, so that the next lab finds the groups of a killed one; another for another directory.
fn name(lab: &Path, site: &str) -> String {
    let hash = fnv1a(lab.as_os_str().as_encoded_bytes());
    format!("longhaul-lab-{hash:016x}-{site}")
}
