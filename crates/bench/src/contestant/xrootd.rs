//! XRootD: xrdcp to xrootd, anonymous, in clear and over TLS.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Contestant, JobCommand, Role, with_environment};
use crate::job::{Data, Job};
use crate::pki::Pki;

/// The user that xrootd serves as where it is started by root.
const NOBODY: u32 = 65_534;

/// The command of a server with more lines of configuration.
fn server(root: &Path, state: &Path, port: u16, more: &str) -> Result<Vec<String>> {
    let configuration = state.join("xrootd.cfg");
    let own = state.join("own");
    fs::create_dir_all(&own)?;
    crate::data::open_to_all(&own)?;
    let text = format!(
        "all.export {}\nxrd.port {port}\nall.adminpath {own}\nall.pidpath {own}\n{more}",
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
    Ok(command)
}

fn job_command(job: &Job, origin: &str) -> Option<JobCommand> {
    let source = job.source.display().to_string();
    let url = format!("{origin}:{}/{}/", job.port, job.target.display());
    let name = job.source.file_name()?;
    let job_command = match job.data {
        Data::Zeros { .. } => return None,
        Data::File { .. } => JobCommand::of(["xrdcp", "--silent", &source, &url]),
        Data::Tree { .. } => JobCommand::of(["xrdcp", "--silent", "-r", "--parallel", "4", &source, &url]),
    };
    Some(job_command.with_copy(job.target.join(name)))
}

/// XRootD in clear.
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
        server(root, state, port, "").map(Some)
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        job_command(job, "root://127.0.0.1")
    }
}

/// XRootD over TLS.
#[derive(Clone, Debug)]
pub struct XrootdTls {
    /// The host's certificate.
    pub pki: Pki,
}

impl Contestant for XrootdTls {
    fn name(&self) -> &'static str {
        "xrdcp roots"
    }

    fn role(&self) -> Role {
        Role::EncryptedPeer
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["xrdcp".into(), "xrootd".into()]
    }

    fn server(&self, root: &Path, state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        let key = state.join("host.key");
        fs::copy(&self.pki.key, &key)?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400))?;
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&key, Some(NOBODY), Some(NOBODY))?;
        }
        let more = format!(
            "xrd.tls {} {}\nxrd.tlsca certfile {}\n",
            self.pki.certificate.display(),
            key.display(),
            self.pki.ca.display()
        );
        server(root, state, port, &more).map(Some)
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let JobCommand { command, copy } = job_command(job, "roots://localhost")?;
        let command = with_environment(&[("X509_CERT_DIR", self.pki.directory.as_path())], command);
        Some(JobCommand { command, copy })
    }
}
