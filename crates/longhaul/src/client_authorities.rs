//! The authorities of client certificates: a PEM file, or a directory as grid sites have it, with revocation lists and signing policies;
//! and the VOMS servers whose attributes count. They are read again while a service runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use auth::x509::{Authorities, AuthorityDirectory, AuthoritySource, VomsServers};

use crate::failure::Failure;
use crate::settings::read_authorities;

/// The authorities that `--client-ca` and `--vomsdir` name; none where no client certificate is accepted.
///
/// # Errors
/// A file cannot be read, there is no authority in it, or VOMS servers are named without authorities.
pub fn client_authorities(
    client_ca: Option<&Path>,
    vomsdir: Option<&Path>,
) -> Result<Option<Arc<AuthoritySource>>, Failure> {
    let Some(at) = client_ca.map(Path::to_owned) else {
        return match vomsdir {
            None => Ok(None),
            Some(_) => Err(Failure::usage(
                "--vomsdir needs --client-ca: VOMS attributes come with client certificates, and --client-ca names the authorities \
                 that verify these",
            )),
        };
    };
    let vomsdir = vomsdir.map(Path::to_owned);
    let first = read(&at, vomsdir.as_deref())?;
    let again = move || match read(&at, vomsdir.as_deref()) {
        Ok(authorities) => Some(authorities),
        Err(failure) => {
            tracing::error!(
                error = failure.message,
                "the authorities cannot be read again; the former ones stay in force"
            );
            None
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    Ok(Some(Arc::new(AuthoritySource::new(first, now, again))))
}

fn read(client_ca: &Path, vomsdir: Option<&Path>) -> Result<Authorities, Failure> {
    let voms = vomsdir.map(voms_servers).transpose()?.unwrap_or_default();
    if client_ca.is_dir() {
        return Ok(directory(client_ca)?.into_authorities(voms));
    }
    Ok(Authorities { voms, ..Authorities::new(read_authorities(client_ca, "--client-ca")?) })
}

/// The paths in a directory, in the order of their names.
fn entries(dir: &Path, option: &str) -> Result<Vec<PathBuf>, Failure> {
    let all = fs::read_dir(dir).and_then(|all| all.map(|entry| entry.map(|entry| entry.path())).collect());
    let mut all: Vec<PathBuf> = all.map_err(|error| cannot_use(dir, option, &error))?;
    all.sort();
    Ok(all)
}

fn cannot_use(at: &Path, option: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("cannot use {} as {option}: {why}", at.display()))
}

/// The authorities of a directory. One bad file does not shut out the clients of all other authorities: it is reported and left out.
fn directory(dir: &Path) -> Result<AuthorityDirectory, Failure> {
    let mut authorities = AuthorityDirectory::default();
    for file in entries(dir, "--client-ca")? {
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else { continue };
        if !AuthorityDirectory::uses(name) {
            continue;
        }
        let read = fs::read(&file).map_err(|error| error.to_string());
        if let Err(why) = read.and_then(|bytes| authorities.add(name, &bytes).map_err(|error| error.to_string())) {
            tracing::warn!(file = %file.display(), why, "a file of --client-ca is left out");
        }
    }
    if authorities.is_empty() {
        let why = "there is no certificate of an authority in it (NAME.pem, HASH.0)";
        return Err(cannot_use(dir, "--client-ca", &why));
    }
    Ok(authorities)
}

/// The VOMS servers of a directory with files `VO/HOST.lsc`.
fn voms_servers(dir: &Path) -> Result<VomsServers, Failure> {
    let mut servers = VomsServers::default();
    for organisation in entries(dir, "--vomsdir")?.iter().filter(|path| path.is_dir()) {
        let Some(vo) = organisation.file_name().and_then(|name| name.to_str()) else { continue };
        let files = entries(organisation, "--vomsdir")?;
        for file in files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "lsc")) {
            let text = fs::read_to_string(file).map_err(|error| cannot_use(file, "--vomsdir", &error))?;
            servers.add(vo, &text).map_err(|error| cannot_use(file, "--vomsdir", &error))?;
        }
    }
    if servers.is_empty() { Err(cannot_use(dir, "--vomsdir", &"there is no VO/HOST.lsc in it")) } else { Ok(servers) }
}
