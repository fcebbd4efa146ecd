//! Starts nodes of the measured binary, on this host or at a site of a lab, and makes keys to them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::Lab;
use web::Dialer;

use crate::process::ChildGuard;
use crate::site_programs::SitePrograms;

/// The longest that a node may take until it listens.
const START_MAX: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A node that ends when it is dropped.
#[derive(Debug)]
pub struct Node {
    /// The port on which it listens.
    pub port: u16,
    process: ChildGuard,
}

impl Node {
    /// Starts `longhaul serve` by its whole command, and waits until it prints its address.
    ///
    /// # Errors
    /// It cannot be started, or its first line has no port.
    pub fn start(command: &mut Command) -> Result<Node> {
        let mut process =
            ChildGuard(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start longhaul")?);
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().context("the node has an output")?).read_line(&mut line)?;
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        Ok(Node { port: port.with_context(|| format!("the node printed {line:?}, which has no port"))?, process })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

/// Makes a key with `longhaul grant` and these arguments, for the node with this state directory.
///
/// # Errors
/// `longhaul grant` fails, or prints no key.
pub fn grant(longhaul: &Path, state: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new(longhaul);
    command.arg("grant").args(words).arg("--state").arg(state).env_remove("LONGHAUL_KEY");
    let output = command.output().context("cannot start longhaul grant")?;
    ensure!(output.status.success(), "no key: {}", String::from_utf8_lossy(&output.stderr));
    let key = String::from_utf8(output.stdout)?.lines().last().unwrap_or_default().to_owned();
    ensure!(key.starts_with("lhk1_"), "longhaul grant printed no key");
    Ok(key)
}

/// A dialer for a node or hub that speaks HTTP in clear.
///
/// # Errors
/// The TLS library has no usable protocol version.
pub fn dialer() -> Result<Dialer> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = Arc::new(tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    let timeout = Duration::from_secs(60);
    Ok(Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: timeout, silence: timeout })
}

/// Starts the binary at sites of a lab, with its output in files and a state directory for each site.
pub struct SiteProcesses<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// The longhaul binary.
    pub longhaul: &'a Path,
    /// The directory for output and state.
    pub dir: &'a Path,
}

impl SiteProcesses<'_> {
    /// Starts the binary at a site with these arguments. Its output goes to `NAME.out` and `NAME.err`. If this program is killed,
    /// the kernel kills the process as well.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, site: &str, name: &str, words: &[String]) -> Result<ChildGuard> {
        let longhaul = self.longhaul.display().to_string();
        let words: Vec<String> = iter::once(longhaul).chain(words.iter().cloned()).collect();
        let mut command = self.programs().command(site, name, &words)?;
        Ok(ChildGuard(command.spawn().context("cannot start setpriv and longhaul")?))
    }

    /// Starts a node at a site, and waits until it listens.
    ///
    /// # Errors
    /// It cannot be started, does not listen in time, or a signal ended the run.
    pub fn serve(&self, site: &str, name: &str, words: &[String], stop: &AtomicBool) -> Result<ChildGuard> {
        let node = self.start(site, name, words)?;
        let begun = Instant::now();
        while !fs::read_to_string(self.log(name, "out"))?.contains("listening") {
            ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(begun.elapsed() < START_MAX, "the node does not listen");
            sleep(POLL_INTERVAL);
        }
        Ok(node)
    }

    /// The file with the output of a program, on `out` or `err`.
    pub fn log(&self, name: &str, end: &str) -> PathBuf {
        self.programs().log(name, end)
    }

    fn programs(&self) -> SitePrograms<'_> {
        SitePrograms { lab: self.lab, dir: self.dir }
    }
}
