//! Copies of a list of files, made by `longhaul cp --files-from`, and the distance of an endpoint in seconds.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use clap::Parser;
use model::Exit;
use tempfile::NamedTempFile;

use crate::args::{Args, Command};
use crate::commands::cp;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// How long an endpoint may take to accept a connection before it counts as unreachable.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// A line of a list of files: a path below the source, the path below the target, and the expected checksum.
pub(super) struct FileListLine {
    pub from: String,
    pub to: String,
    pub checksum: Option<String>,
}

/// Copies files from one directory to another, and verifies each.
///
/// # Errors
/// The list cannot be written, or the copy fails.
pub(super) fn copy(
    source: &str,
    target: &str,
    mirrors: &[String],
    lines: &[FileListLine],
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::local(format!("cannot write the list of files: {error}"));
    let mut list = NamedTempFile::new().map_err(failed)?;
    for line in lines {
        let checksum = line.checksum.as_ref().map(|checksum| format!("\t{checksum}")).unwrap_or_default();
        writeln!(list, "{}\t{}{checksum}", line.from, line.to).map_err(failed)?;
    }
    list.flush().map_err(failed)?;
    let mut words: Vec<OsString> = ["longhaul", "cp", "--recursive", "--files-from"].map(OsString::from).into();
    words.push(list.path().into());
    let checksums = lines.iter().filter_map(|line| Some(line.checksum.as_ref()?.split_once(':')?.0));
    let algorithms: BTreeSet<&str> = checksums.collect();
    if !algorithms.is_empty() {
        words.extend(["--checksum".into(), algorithms.into_iter().collect::<Vec<_>>().join(",").into()]);
    }
    for mirror in mirrors {
        words.extend(["--mirror".into(), mirror.into()]);
    }
    words.extend(["--".into(), source.into(), target.into()]);
    let args = Args::try_parse_from(words).map_err(|error| Failure::usage(error.to_string()))?;
    match args.command {
        Command::Cp(copy) => cp::run(&copy, settings, printer),
        _ => Err(Failure::local("the arguments of a copy were read as another command")),
    }
}

/// How long an endpoint takes to accept a connection; the greatest duration if it does not.
pub(super) fn distance(url: &str, settings: &Settings) -> Duration {
    let unreachable = Duration::MAX;
    let Ok(locator) = settings.locator(url.as_ref()) else { return unreachable };
    let at = match locator.node() {
        Some(at) => (at.host.clone(), at.port),
        None => match web::HttpUrl::parse(url) {
            Ok(url) => (url.host().to_owned(), url.port()),
            Err(_) => return unreachable,
        },
    };
    let started = Instant::now();
    let mut addresses = match at.to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(_) => return unreachable,
    };
    if addresses.any(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).is_ok()) {
        started.elapsed()
    } else {
        unreachable
    }
}
