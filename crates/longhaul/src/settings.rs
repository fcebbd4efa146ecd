//! The effective settings of a command: its options, the environment, the user's configuration and the state directory.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use auth::{AccessKey, Fingerprint};
use client::StateDir;
use engine::dial::AdvertisedAddresses;
use engine::session::{Connect, Session};
use engine::{Error, Timeouts, Trust};
use model::{HostPort, Locator};
use parking_lot::{Mutex, MutexGuard};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::args::Common;
use crate::client_config::ClientConfig;
use crate::copy_defaults::CopyDefaults;
use crate::failure::Failure;
use crate::known_nodes::KnownNodes;
use crate::printer::Printer;
use crate::ssh::FarEnd;

/// Where Linux distributions keep the authorities that they trust: all in one file.
const SYSTEM_AUTHORITIES: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];
/// Where grid sites keep theirs: one file for each authority.
const GRID_AUTHORITIES: &str = "/etc/grid-security/certificates";

/// Everything a client command needs besides its own arguments.
pub struct Settings {
    /// The state directory; none where no place for it is known. Many commands do not need one.
    state: Option<PathBuf>,
    /// Whether the user was warned that the access keys are for other nodes.
    has_warned_of_other_nodes: AtomicBool,
    /// Ids of access keys that a node has refused although there are further keys for it.
    refused_key_ids: Mutex<HashSet<[u8; 8]>>,
    /// The access keys of the environment and of `--key-file`.
    keys: Vec<AccessKey>,
    config: ClientConfig,
    authorities: Option<Arc<RootCertStore>>,
    /// Further addresses that nodes have advertised.
    advertised_addresses: AdvertisedAddresses,
}

/// The path of the state directory: from the option, else the environment, else the default of this user.
///
/// # Errors
/// Neither an option nor the environment names a place.
pub fn state_dir(option: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = option.cloned().or_else(|| variable("LONGHAUL_STATE")) {
        return Ok(dir);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/longhaul"));
    }
    let base = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")));
    Ok(base.ok_or_else(no_state_dir)?.join("longhaul"))
}

fn no_state_dir() -> Failure {
    Failure::usage("no place for the state: set LONGHAUL_STATE or HOME, or use --state DIR")
}

/// The access keys of the environment, and of the file that --key-file names.
///
/// # Errors
/// The file cannot be read, or a key is malformed.
pub fn read_keys(common: &Common) -> Result<Vec<AccessKey>, Failure> {
    let mut texts: Vec<(String, String)> = Vec::new();
    if let Ok(keys) = std::env::var("LONGHAUL_KEY") {
        texts.extend(keys.split(',').map(|key| ("LONGHAUL_KEY".to_owned(), key.to_owned())));
    }
    let wanted = texts.into_iter().filter(|(_, key)| !key.trim().is_empty());
    let read = |(from, key): (String, String)| key.parse().map_err(|e| Failure::usage(format!("{from}: {e}")));
    let mut keys = wanted.map(read).collect::<Result<Vec<_>, _>>()?;
    if let Some(file) = &common.key_file {
        keys.extend(read_key_file(file)?);
    }
    Ok(keys)
}

/// The access keys of a file: one per line, `#` begins a comment. A file that others can read draws a warning.
///
/// # Errors
/// The file cannot be read, or a key is malformed.
pub fn read_key_file(file: &Path) -> Result<Vec<AccessKey>, Failure> {
    let name = file.display();
    let fail = |why: &dyn std::fmt::Display| Failure::usage(format!("cannot read {name}: {why}"));
    let content = std::fs::read_to_string(file).map_err(|e| fail(&e))?;
    let mode = std::fs::metadata(file).map_err(|e| fail(&e))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        Printer::note(&format!(
            "others on this host can read the access keys in {name} (mode {mode:04o}): chmod 600 {name}"
        ));
    }
    let lines = content.lines().map(str::trim).enumerate();
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let read =
        |(at, line): (usize, &str)| line.parse().map_err(|e| Failure::usage(format!("{name}, line {}: {e}", at + 1)));
    keys.map(read).collect()
}

/// The authorities in a PEM file that an option names.
///
/// # Errors
/// The file cannot be read, or has no certificate that can be used.
pub fn read_authorities(file: &Path, option: &str) -> Result<Arc<RootCertStore>, Failure> {
    let fail = |why: String| Failure::usage(format!("cannot use {} as {option}: {why}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| fail(e.to_string()))? {
        let added = certificate.map_err(|e| fail(e.to_string())).map(|c| roots.add(c));
        added?.map_err(|e| fail(e.to_string()))?;
    }
    if roots.is_empty() { Err(fail("there is no certificate in it".into())) } else { Ok(Arc::new(roots)) }
}

/// The authorities that this system trusts. Certificates that cannot be read are skipped: most systems have a few.
pub fn system_authorities() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let bundle = SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|file| file.exists());
    let grid = std::fs::read_dir(GRID_AUTHORITIES).into_iter().flatten().flatten().map(|entry| entry.path());
    let pem = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "pem" || ending == "0");
    for file in bundle.into_iter().chain(grid.filter(pem)) {
        let read = CertificateDer::pem_file_iter(&file).into_iter().flatten().flatten();
        roots.add_parsable_certificates(read);
    }
    roots
}

impl Settings {
    /// Reads the environment and the files that the options name.
    ///
    /// # Errors
    /// A file cannot be read, or something in it or in the environment is wrong.
    pub fn new(common: &Common) -> Result<Settings, Failure> {
        Ok(Settings {
            state: state_dir(common.state.as_ref()).ok(),
            has_warned_of_other_nodes: AtomicBool::new(false),
            refused_key_ids: Mutex::default(),
            keys: read_keys(common)?,
            config: ClientConfig::load()?,
            authorities: common.cacert.as_ref().map(|file| read_authorities(file, "--cacert")).transpose()?,
            advertised_addresses: AdvertisedAddresses::default(),
        })
    }

    /// Reads a locator as it was typed: `NAME:PATH` is a place on a node that has a name in the user's configuration.
    ///
    /// # Errors
    /// The text is no locator.
    pub fn locator(&self, text: &OsStr) -> Result<Locator, Failure> {
        match self.config.locator(text.as_bytes()) {
            Some(named) => named,
            None => Ok(Locator::parse(text)?),
        }
    }

    /// The node that has this name in the user's configuration.
    pub fn node_named(&self, name: &str) -> Option<HostPort> {
        self.config.named(name).map(|node| node.at.clone())
    }

    /// All names of nodes in the user's configuration.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.config.names()
    }

    /// The defaults of a copy from or to this node; the command line overrides them.
    pub fn copy_defaults(&self, node: Option<&HostPort>) -> &CopyDefaults {
        self.config.copy_defaults(node)
    }

    /// Access keys to try with this node: those of the key file that the configuration names for it, then all others.
    fn keys_for(&self, node: &HostPort) -> Result<Cow<'_, [AccessKey]>, Failure> {
        match self.config.node(node).and_then(|named| named.key_file.as_deref()) {
            Some(file) => {
                let mut keys = read_key_file(file)?;
                keys.extend(self.keys.iter().cloned());
                Ok(Cow::Owned(keys))
            }
            None => Ok(Cow::Borrowed(&self.keys)),
        }
    }

    /// The access keys of the environment and of `--key-file`.
    pub fn keys(&self) -> &[AccessKey] {
        &self.keys
    }

    /// The authorities that `--cacert` names.
    pub fn given_authorities(&self) -> Option<&Arc<RootCertStore>> {
        self.authorities.as_ref()
    }

    /// The path of the state directory, whether it exists or not.
    ///
    /// # Errors
    /// No place for it is known.
    pub fn state_path(&self) -> Result<&Path, Failure> {
        self.state.as_deref().ok_or_else(no_state_dir)
    }

    /// The authorities for remote servers: those of `--cacert`, else those that this system trusts.
    pub fn authorities(&self) -> Arc<RootCertStore> {
        self.authorities.clone().unwrap_or_else(|| Arc::new(system_authorities()))
    }

    /// The name of the lab that this process was started in.
    pub fn lab() -> Option<String> {
        std::env::var("LONGHAUL_LAB").ok().filter(|name| !name.is_empty())
    }

    /// The state directory, made if it is missing.
    ///
    /// # Errors
    /// No place for it is known, or it cannot be made or read.
    pub fn state(&self) -> Result<StateDir, Failure> {
        Ok(StateDir::open(self.state_path()?)?)
    }

    /// Connects to a node, authenticates it and remembers its identity.
    ///
    /// # Errors
    /// The node cannot be reached, has another identity than expected, or refuses the login.
    pub fn connect(&self, to: &HostPort, plain: bool, timeouts: Timeouts) -> Result<Session, Failure> {
        let known = self.known_nodes();
        let pinned = known.as_ref().map(|known| known.find(to)).transpose()?.flatten();
        // A known node must show its remembered identity, whatever keys the user has: otherwise another node for which the user has
        // a key could take its place. At first contact the keys say which identities are accepted.
        let mut keys = self.keys_for(to)?;
        if let Some(refused) = Some(self.refused_key_ids()).filter(|refused| !refused.is_empty()) {
            keys.to_mut().retain(|key| !refused.contains(&key.id));
        }
        let accepted: Vec<Fingerprint> = match pinned {
            Some(pinned) => vec![pinned],
            None => keys.iter().map(|k| k.node).collect(),
        };
        let trust = match &self.authorities {
            Some(roots) => Trust::Authorities(Arc::clone(roots)),
            None => Trust::Fingerprints(accepted),
        };
        let advertised_addresses = self.advertised_addresses.clone();
        let connect = Connect { plain, timeouts, advertised_addresses, ..Connect::new(trust, &keys)? };
        let session = Session::connect(to, &connect).map_err(|e| with_remedy(e, pinned, known.as_ref()))?;
        let shown = session.fingerprint();
        if !session.has_key() && !keys.is_empty() && !self.has_warned_of_other_nodes.swap(true, Ordering::Relaxed) {
            Printer::note(&format!("your access keys are for other nodes than {to}: going on without one"));
        }
        if self.authorities.is_none() && pinned != Some(shown) {
            let why = if session.has_key() { "the access key names it" } else { "first contact" };
            let remembered = match &known {
                Some(known) => known.pin(to, shown).map(|()| "remembered")?,
                None => "not remembered: LONGHAUL_STATE and HOME are not set",
            };
            Printer::note(&format!("{to} is {shown} ({why}; {remembered})"));
        }
        Ok(session)
    }

    /// The known nodes and hubs; none where there is no state directory.
    pub fn known_nodes(&self) -> Option<KnownNodes> {
        self.state.as_deref().map(KnownNodes::new)
    }

    fn refused_key_ids(&self) -> MutexGuard<'_, HashSet<[u8; 8]>> {
        self.refused_key_ids.lock()
    }

    /// Marks the access key that this process last showed to a node as refused. Returns whether there is another key for the node;
    /// the next connection shows it.
    pub fn try_another_key(&self, node: &HostPort) -> bool {
        let (Some(known), Ok(keys)) = (self.known_nodes(), self.keys_for(node)) else { return false };
        let Ok(Some(identity)) = known.find(node) else { return false };
        let mut refused = self.refused_key_ids();
        let mut usable_ids =
            keys.iter().filter(|key| key.node == identity && !refused.contains(&key.id)).map(|key| key.id);
        match (usable_ids.next(), usable_ids.next()) {
            (Some(shown), Some(_)) => refused.insert(shown),
            _ => false,
        }
    }

    /// The identity of a node and the access key for it, for a client that speaks HTTP to it. The node proves its identity in a
    /// session; if it cannot be reached, this is the remembered identity, or that of the only key.
    ///
    /// # Errors
    /// The node refuses the session, or cannot be reached and its identity is not known.
    pub fn identity_and_key(&self, node: &HostPort) -> Result<(Fingerprint, Option<AccessKey>), Failure> {
        let keys = self.keys_for(node)?;
        let shown = match self.connect(node, false, Timeouts::default()) {
            Ok(session) => {
                let shown = session.fingerprint();
                session.close();
                shown
            }
            Err(failure) if failure.fault == model::Fault::Path => {
                let known = self.known_nodes().filter(|_| self.authorities.is_none());
                let pinned = known.map(|known| known.find(node)).transpose()?.flatten();
                let only = || Some(keys.first()?.node).filter(|_| keys.len() == 1);
                pinned.or_else(only).ok_or(failure)?
            }
            Err(failure) => return Err(failure),
        };
        Ok((shown, keys.iter().find(|key| key.node == shown).cloned()))
    }

    /// Connects to the loopback node of this process; its identity is not remembered.
    ///
    /// # Errors
    /// The connection or the login fails.
    pub fn connect_loopback(&self, to: &HostPort, key: &AccessKey, timeouts: Timeouts) -> Result<Session, Failure> {
        let connect = Connect { plain: true, timeouts, ..Connect::with_key(key)? };
        Ok(Session::connect(to, &connect)?)
    }

    /// Connects to the far end of a copy over ssh, in whichever direction a connection can be made.
    ///
    /// # Errors
    /// No connection can be made in either direction, or the login fails.
    pub fn connect_far(&self, far: &FarEnd, plain: bool, timeouts: Timeouts) -> Result<Session, Failure> {
        let connect = Connect { plain, timeouts, ..Connect::with_key(&far.key)? };
        let dial = far.dialer();
        let unreachable = |source| Error::Connect { to: far.at.to_string(), source };
        let socket = dial.dial(&timeouts).map_err(unreachable)?;
        Ok(Session::over(socket, dial, &far.at, &connect)?)
    }
}

/// The failure of a connection. If the node has an unexpected identity, the message says what the user can do.
fn with_remedy(error: Error, pinned: Option<Fingerprint>, known: Option<&KnownNodes>) -> Failure {
    let Error::Identity { to, shown, expected, .. } = error else { return error.into() };
    let remedy = match (pinned, known) {
        (Some(_), Some(known)) => format!(
            "If its operator confirms the change (a new access key for it is a sign of one), remove the line of {to} from {} and try \
             again; if not, somebody may be in between",
            known.path().display()
        ),
        _ => "None of your access keys is for this node: check the address, or ask its operator for a key (to \
                 go without one, unset LONGHAUL_KEY)"
            .into(),
    };
    Error::Identity { to, shown, expected, remedy }.into()
}
