//! Several sources of the same bytes, opened from the locators of the command line. How ranges are divided among the sources is
//! decided by `remote::Mirrored`.

use std::sync::Arc;
use std::time::Duration;

use auth::{AccessKey, Fingerprint};
use client::remote_store;
use engine::Trust;
use engine::identity::{HTTP_ALPN, HTTP_BY_KEY_ALPN};
use engine::scan::SourceRoot;
use model::locator;
use model::name::{Name, RelPath};
use model::{Fault, HostPort, Locator, v1};
use parking_lot::Mutex;
use remote::mirrored::{MEMBERS_MAX, Member, Share, SourceStore};
use remote::{Dav, Mirrored, Redirects, ServerSettings};
use rustls::ClientConfig;
use store::PayloadProtection;
use web::{Dialer, HttpUrl};

use super::{open, unrestricted};
use crate::failure::Failure;
use crate::local;
use crate::printer::Printer;
use crate::settings::Settings;

/// How long one request to one source is retried. It is short, because the other sources deliver meanwhile.
const REQUEST_RETRY_MAX: Duration = Duration::from_secs(3);
/// How long all sources together may deliver nothing before the attempt ends. The job is retried for longer (`--retry-for`).
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The sources of one copy.
pub struct Mirrors {
    set: Mirrored,
    path: RelPath,
    name: Name,
    /// Messages for the user, to be printed between updates of the progress line.
    notes: Arc<Mutex<Vec<String>>>,
    /// Sources that could not be opened.
    left_out: Vec<v1::Mirror>,
}

impl Mirrors {
    /// Opens the source and the mirrors. A source that is unavailable is reported and left out.
    ///
    /// # Errors
    /// A locator is wrong, the first source refuses, or no source is left.
    pub fn open(source: &Locator, further: &[Locator], settings: &Settings) -> Result<Mirrors, Failure> {
        if further.len() >= MEMBERS_MAX {
            return Err(Failure::usage(format!("a copy has at most {MEMBERS_MAX} sources")));
        }
        let mut members = Vec::new();
        let mut all_left_out = Vec::new();
        let mut first_failure = None;
        for locator in std::iter::once(source).chain(further) {
            match member(locator, settings) {
                Ok(member) => members.push(member),
                Err(failure) if failure.fault == Fault::Config => return Err(failure),
                Err(failure) if all_left_out.is_empty() && members.is_empty() && failure.fault != Fault::Path => {
                    return Err(failure);
                }
                Err(failure) => {
                    Printer::note(&format!("{locator} is left out: {}", failure.message));
                    let source = locator.to_string();
                    let left_out = Some(failure.message.clone());
                    all_left_out.push(v1::Mirror { source, left_out, ..Default::default() });
                    first_failure.get_or_insert(failure);
                }
            }
        }
        let Some(first) = members.first() else {
            return Err(first_failure.unwrap_or_else(|| Failure::usage("there is no source")));
        };
        let path = first.path.clone();
        let name = path.name().or_else(|| Name::new(b"root").ok());
        let name = name.ok_or_else(|| Failure::usage("that place has no name"))?;
        let notes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&notes);
        let add_note = move |note: &str| sink.lock().push(note.to_owned());
        let set = Mirrored::new(members, SILENCE_MAX, Box::new(add_note));
        Ok(Mirrors { set, path, name, notes, left_out: all_left_out })
    }

    /// Checks that the data is there.
    ///
    /// # Errors
    /// No source has it.
    pub fn check(&self) -> Result<(), Failure> {
        store::Store::stat(&self.set, &self.path)?;
        Ok(())
    }

    /// The root of the copy, read from all sources.
    pub fn root(&self) -> SourceRoot {
        SourceRoot { store: Arc::new(self.set.clone()), path: self.path.clone(), name: self.name.clone() }
    }

    /// The messages since the last call.
    pub fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock())
    }

    /// Whether the payload of each source was encrypted; only sources that delivered payload are listed.
    pub fn payload_protection(&self) -> Vec<(String, PayloadProtection)> {
        let shares = self.set.shares().into_iter().filter(|share| share.bytes > 0);
        shares.filter_map(|share| Some((share.source, share.payload_protection?))).collect()
    }

    /// Whether a new attempt may copy a file that failed: the source that had other bytes is excluded now.
    pub fn is_retry_useful(&self) -> bool {
        self.set.is_retry_useful()
    }

    /// How much each source delivered, and the sources that were left out.
    pub fn shares(&self) -> Vec<v1::Mirror> {
        let shares = self.set.shares().into_iter();
        let shares = shares.map(|Share { source, bytes, left_out, unproven_files, .. }| v1::Mirror {
            source,
            bytes,
            left_out,
            unproven_files,
        });
        shares.chain(self.left_out.iter().cloned()).collect()
    }
}

fn member(locator: &Locator, settings: &Settings) -> Result<Member, Failure> {
    let name = locator.to_string();
    match locator {
        Locator::Remote { url, .. } => {
            let remote = open(url, unrestricted(settings.authorities(), REQUEST_RETRY_MAX)?)?;
            Ok(Member::new(name, remote.place, remote.path))
        }
        Locator::Node { at, place: locator::NodePlace::Path { export, path }, .. } => {
            let root = RelPath::parse(export.as_bytes()).map_err(|e| Failure::usage(format!("{locator}: {e}")))?;
            Ok(Member::new(name, SourceStore::Dav(node(at, settings)?), root.join_path(path)))
        }
        Locator::Local(_) => {
            let SourceRoot { store, path, .. } = local::source(locator)?;
            Ok(Member::new(name, SourceStore::Local(store), path))
        }
        other => Err(Failure::usage(format!(
            "{other} cannot be one of several sources; with --mirror these are places on nodes (lh://) and servers \
             (https://, davs://, s3://, root://), and paths here"
        ))),
    }
}

/// A node as a WebDAV server. It proves its identity by its key, as in every copy, and gets the access key for it.
fn node(at: &HostPort, settings: &Settings) -> Result<Dav, Failure> {
    let (identity, key) = settings.identity_and_key(at)?;
    let token = key.as_ref().map(AccessKey::expose_text);
    let url = HttpUrl::parse(&format!("https://{at}/")).map_err(|e| Failure::usage(e.to_string()))?;
    let token = Arc::new(move || Ok(token.clone()));
    let server_settings = ServerSettings {
        dialer: dialer(identity)?,
        token,
        redirects: Redirects::Anywhere,
        patience: REQUEST_RETRY_MAX,
    };
    Ok(Dav::new(server_settings, &url, RelPath::root()))
}

/// A dialer that accepts only the node with this identity.
fn dialer(identity: Fingerprint) -> Result<Dialer, Failure> {
    let trust = Trust::Fingerprints(vec![identity]);
    let config = engine::identity::client_config(&trust, &[]);
    let (tls, _) = config.map_err(|e| Failure::local(format!("cannot set up TLS: {e}")))?;
    let mut tls = ClientConfig::clone(&tls);
    tls.alpn_protocols = vec![HTTP_BY_KEY_ALPN.to_vec(), HTTP_ALPN.to_vec()];
    Ok(remote_store::dialer(Arc::new(tls), Arc::new(|_| Ok(()))))
}
