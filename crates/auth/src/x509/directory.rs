//! A directory of authorities, as grid sites have it in `/etc/grid-security/certificates`: certificates (`HASH.0`, `NAME.pem`), lists of
//! revoked certificates (`HASH.r0`), and signing policies (`HASH.signing_policy`). Files of other kinds say nothing that is used here.

use std::collections::HashSet;
use std::sync::Arc;

use model::fault::{Blame, Fault};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{Authorities, RevocationListError, SigningPolicyError, VomsServers};

/// The authorities of a directory, added file by file.
#[derive(Debug)]
pub struct AuthorityDirectory {
    roots: RootCertStore,
    /// The certificates that were added: most directories name each by two links.
    known: HashSet<Vec<u8>>,
    authorities: Authorities,
}

/// Why a file of such a directory is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityFileError {
    /// Not a certificate of an authority.
    #[error("it is not a certificate in PEM: {0}")]
    Certificate(String),
    /// Not a list of revoked certificates.
    #[error(transparent)]
    RevocationList(#[from] RevocationListError),
    /// Not a signing policy.
    #[error(transparent)]
    SigningPolicy(#[from] SigningPolicyError),
    /// Not text.
    #[error("a signing policy is text in UTF-8")]
    Text,
}

impl Blame for AuthorityFileError {
    fn fault(&self) -> Fault {
        Fault::Config
    }
}

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Certificate,
    RevocationList,
    SigningPolicy,
}

/// The kind of a file by its name; none for files of no use.
fn kind(name: &str) -> Option<FileKind> {
    let (_, ending) = name.rsplit_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match ending {
        "pem" | "crt" => Some(FileKind::Certificate),
        "crl" => Some(FileKind::RevocationList),
        "signing_policy" => Some(FileKind::SigningPolicy),
        number if is_number(number) => Some(FileKind::Certificate),
        other if other.strip_prefix('r').is_some_and(is_number) => Some(FileKind::RevocationList),
        _ => None,
    }
}

impl Default for AuthorityDirectory {
    fn default() -> AuthorityDirectory {
        let authorities = Authorities::new(Arc::new(RootCertStore::empty()));
        AuthorityDirectory { roots: RootCertStore::empty(), known: HashSet::new(), authorities }
    }
}

impl AuthorityDirectory {
    /// Whether a file with this name says something that is used.
    pub fn uses(name: &str) -> bool {
        kind(name).is_some()
    }

    /// Adds what a file says.
    ///
    /// # Errors
    /// [`AuthorityFileError`]: it is not what its name says. The authorities of other files can be used without it.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), AuthorityFileError> {
        match kind(name) {
            None => Ok(()),
            Some(FileKind::Certificate) => self.add_certificates(bytes),
            Some(FileKind::RevocationList) => Ok(self.authorities.revocation_lists.add(bytes)?),
            Some(FileKind::SigningPolicy) => {
                let text = std::str::from_utf8(bytes).map_err(|_| AuthorityFileError::Text)?;
                Ok(self.authorities.signing_policies.add(text)?)
            }
        }
    }

    fn add_certificates(&mut self, bytes: &[u8]) -> Result<(), AuthorityFileError> {
        let mut is_empty = true;
        for certificate in CertificateDer::pem_slice_iter(bytes) {
            let certificate = certificate.map_err(|error| AuthorityFileError::Certificate(error.to_string()))?;
            is_empty = false;
            if self.known.insert(certificate.to_vec()) {
                self.roots.add(certificate).map_err(|error| AuthorityFileError::Certificate(error.to_string()))?;
            }
        }
        if is_empty { Err(AuthorityFileError::Certificate("there is none in it".to_owned())) } else { Ok(()) }
    }

    /// How many authorities there are.
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Whether there is no authority.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The authorities, with these VOMS servers.
    pub fn into_authorities(self, voms: VomsServers) -> Authorities {
        Authorities { roots: Arc::new(self.roots), voms, ..self.authorities }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_files_say_their_kinds() {
        for name in ["4a6cd8b1.0", "4a6cd8b1.12", "CERN.pem", "CERN.crt"] {
            assert_eq!(kind(name), Some(FileKind::Certificate), "{name}");
        }
        assert_eq!(kind("4a6cd8b1.r0"), Some(FileKind::RevocationList));
        assert_eq!(kind("4a6cd8b1.signing_policy"), Some(FileKind::SigningPolicy));
        for name in ["CERN.info", "CERN.namespaces", "CERN.crl_url", "4a6cd8b1", "x.r", "x."] {
            assert!(!AuthorityDirectory::uses(name), "{name}");
        }
    }

    #[test]
    fn a_certificate_counts_once_under_all_its_names() {
        let made = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
        let mut directory = AuthorityDirectory::default();
        directory.add("4a6cd8b1.0", made.cert.pem().as_bytes()).unwrap();
        directory.add("ca.pem", made.cert.pem().as_bytes()).unwrap();
        directory.add("ca.info", b"nothing of use").unwrap();
        assert_eq!(directory.len(), 1);
    }

    #[test]
    fn a_file_that_is_not_what_its_name_says_is_refused() {
        let mut directory = AuthorityDirectory::default();
        assert!(matches!(directory.add("x.0", b"x"), Err(AuthorityFileError::Certificate(_))));
        assert!(matches!(directory.add("x.r0", b"x"), Err(AuthorityFileError::RevocationList(_))));
        assert!(matches!(directory.add("x.signing_policy", b"x y"), Err(AuthorityFileError::SigningPolicy(_))));
        assert_eq!(directory.add("x.signing_policy", b"\xff"), Err(AuthorityFileError::Text));
        assert!(directory.is_empty());
    }
}
