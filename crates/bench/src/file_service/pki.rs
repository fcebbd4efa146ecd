//! The certificate authority and the host certificate of a run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::data::open_to_all;

/// The files of the certificates.
#[derive(Clone, Debug)]
pub struct Pki {
    /// The authority's certificate.
    pub ca: PathBuf,
    /// A directory with the authority under its hash, where clients of XRootD look.
    pub directory: PathBuf,
    /// The host's, for localhost and 127.0.0.1.
    pub certificate: PathBuf,
    /// The host's key: P-256, the current default.
    pub key: PathBuf,
}

impl Pki {
    /// Makes the certificates in a directory.
    ///
    /// # Errors
    /// A certificate cannot be made or written.
    pub fn make(dir: &Path) -> Result<Pki> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "bench authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let pki = Pki {
            ca: dir.join("ca.pem"),
            directory: dir.join("certificates"),
            certificate: dir.join("host.pem"),
            key: dir.join("host.key"),
        };
        fs::write(&pki.ca, params.self_signed(&key)?.pem())?;
        fs::create_dir(&pki.directory)?;
        fs::copy(&pki.ca, pki.directory.join(format!("{}.0", hash_of(&pki.ca)?)))?;
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, "localhost");
        fs::write(&pki.certificate, params.signed_by(&key, &issuer)?.pem())?;
        fs::write(&pki.key, key.serialize_pem())?;
        // The key lives only for this run. xrootd gets a copy of its own, which it must own.
        open_to_all(dir)?;
        open_to_all(&pki.directory)?;
        Ok(pki)
    }
}

/// The hash by which OpenSSL finds a certificate.
fn hash_of(certificate: &Path) -> Result<String> {
    let output = Command::new("openssl").args(["x509", "-noout", "-hash", "-in"]).arg(certificate).output();
    let output = output.context("openssl is not installed; scripts/setup.sh installs it")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
