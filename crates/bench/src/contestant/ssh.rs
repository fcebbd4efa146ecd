//! scp and rsync over ssh, to an sshd of the run's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Contestant, JobCommand, Role};
use crate::job::{Data, Job};

/// sshd must be called by its full path.
const SSHD: &str = "/usr/sbin/sshd";

/// A client over ssh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SshClient {
    /// scp.
    Scp,
    /// rsync.
    Rsync,
}

/// A client over ssh, and its server.
#[derive(Clone, Copy, Debug)]
pub struct Ssh {
    /// The client.
    pub client: SshClient,
}

/// Makes a key without a passphrase.
fn make_key(path: &Path) -> Result<()> {
    let output = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).output();
    let output = output.context("ssh-keygen cannot be run")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The options of ssh: the user's key, no question about the host's, no settings of the user.
fn ssh_options(state: &Path) -> Vec<String> {
    let key = state.join("user").display().to_string();
    ["-F", "/dev/null", "-i", &key]
        .into_iter()
        .chain(["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"])
        .map(String::from)
        .collect()
}

impl Contestant for Ssh {
    fn name(&self) -> &'static str {
        match self.client {
            SshClient::Scp => "scp",
            SshClient::Rsync => "rsync over ssh",
        }
    }

    fn role(&self) -> Role {
        Role::EncryptedPeer
    }

    fn programs(&self) -> Vec<PathBuf> {
        let client = match self.client {
            SshClient::Scp => "scp",
            SshClient::Rsync => "rsync",
        };
        vec![client.into(), "ssh".into(), "ssh-keygen".into(), SSHD.into()]
    }

    fn server(&self, _root: &Path, state: &Path, port: u16) -> Result<Option<Vec<String>>> {
        for name in ["host", "user"] {
            make_key(&state.join(name))?;
        }
        if rustix::process::geteuid().is_root() {
            // Where it is missing, sshd has never been started; it stays empty.
            fs::create_dir_all("/run/sshd")?;
        }
        let configuration = state.join("sshd_config");
        let text = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nPidFile none\nSubsystem sftp internal-sftp\n",
            state.join("host").display(),
            state.join("user.pub").display()
        );
        fs::write(&configuration, text)?;
        let mut command: Vec<String> = [SSHD, "-D", "-e", "-f"].map(String::from).into();
        command.push(configuration.display().to_string());
        Ok(Some(command))
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        if let Data::Zeros { .. } = job.data {
            return None;
        }
        let copy = job.target.join("copy");
        let (source, target) = (job.source.display().to_string(), format!("127.0.0.1:{}", copy.display()));
        let mut words = match self.client {
            SshClient::Scp => {
                let mut words = vec!["scp".to_owned(), "-q".into(), "-P".into(), job.port.to_string()];
                words.extend(ssh_options(&job.state));
                words
            }
            SshClient::Rsync => {
                let ssh = format!("ssh -p {} {}", job.port, ssh_options(&job.state).join(" "));
                vec!["rsync".to_owned(), "--whole-file".into(), "--inplace".into(), "-e".into(), ssh]
            }
        };
        match (self.client, job.data) {
            (_, Data::File { .. } | Data::Zeros { .. }) => words.push(source),
            (SshClient::Scp, Data::Tree { .. }) => words.extend(["-r".into(), source]),
            // The slash names what is in the directory.
            (SshClient::Rsync, Data::Tree { .. }) => words.extend(["-r".into(), format!("{source}/")]),
        }
        words.push(target);
        Some(JobCommand { command: words, copy: Some(copy) })
    }
}
