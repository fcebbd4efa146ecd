//! The certificate authority of a run, with the certificates of the host and of a user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize,
};

/// The name of the authority.
const AUTHORITY: &str = "bench authority";
/// The name of the user.
pub const USER: &str = "bench user";

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
    /// A user's, with its key: `/CN=bench user`.
    pub user: [PathBuf; 2],
}

impl Pki {
    /// Makes the certificates in a directory.
    ///
    /// # Errors
    /// A certificate cannot be made or written.
    pub fn make(dir: &Path) -> Result<Pki> {
        let mut params = certificate_of(AUTHORITY);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // GSI makes a proxy only of a certificate whose signature is of RSA.
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let pki = Pki {
            ca: dir.join("ca.pem"),
            directory: dir.join("certificates"),
            certificate: dir.join("host.pem"),
            key: dir.join("host.key"),
            user: ["user.pem", "user.key"].map(|name| dir.join(name)),
        };
        fs::write(&pki.ca, params.self_signed(&key)?.pem())?;
        fs::create_dir(&pki.directory)?;
        let hash = hash_of(&pki.ca)?;
        fs::copy(&pki.ca, pki.directory.join(format!("{hash}.0")))?;
        // What the authority may sign: GSI asks for it.
        let policy =
            format!("access_id_CA X509 '/CN={AUTHORITY}'\npos_rights globus CA:sign\ncond_subjects globus '\"*\"'\n");
        fs::write(pki.directory.join(format!("{hash}.signing_policy")), policy)?;
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, "localhost");
        fs::write(&pki.certificate, params.signed_by(&key, &issuer)?.pem())?;
        fs::write(&pki.key, key.serialize_pem())?;
        let user = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
        let [certificate, key] = &pki.user;
        fs::write(certificate, certificate_of(USER).signed_by(&user, &issuer)?.pem())?;
        fs::write(key, user.serialize_pem())?;
        fs::set_permissions(key, fs::Permissions::from_mode(0o400))?;
        // Servers run as other users. XRootD's client takes no authorities from a directory that others may write.
        for directory in [dir, &pki.directory] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
        }
        Ok(pki)
    }
}

/// The parameters of a certificate of a name. The dates are within what GSI takes on its data channel, which rcgen's own, 1975 to
/// 4096, are not.
fn certificate_of(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2049, 1, 1);
    params
}

/// The hash by which OpenSSL finds a certificate.
fn hash_of(certificate: &Path) -> Result<String> {
    let output = Command::new("openssl").args(["x509", "-noout", "-hash", "-in"]).arg(certificate).output();
    let output = output.context("openssl is not installed; scripts/setup.sh installs it")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
