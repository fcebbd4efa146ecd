//! Certificates of a test bed: an authority, a host, users; and the directory in which grid clients look for authorities.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize, SanType,
};

/// The object identifier of a domain component (RFC 4519 2.4), which grid names begin with.
const DOMAIN_COMPONENT: &[u64] = &[0, 9, 2342, 19_200_300, 100, 1, 25];

/// A certificate and its key, as files in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The certificates of a test bed.
pub struct Pki {
    /// The authority.
    pub ca: PathBuf,
    /// A directory with the authority under its hash, and what it may sign.
    pub directory: PathBuf,
    /// Of localhost and its addresses.
    pub host: Identity,
    /// Of `/DC=test/CN=alice`, whom policies admit.
    pub alice: Identity,
    /// Of `/DC=test/CN=robot`, with an RSA key: FTS's client knows no other.
    pub robot: Identity,
    /// Of `/DC=test/CN=mallory`, whom no policy names.
    pub mallory: Identity,
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    let component = DnValue::Ia5String("test".try_into().unwrap());
    name.push(DnType::CustomDnType(DOMAIN_COMPONENT.to_vec()), component);
    name.push(DnType::CommonName, common);
    name
}

fn params(common: &str, alternatives: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(common);
    params.subject_alt_names = alternatives;
    params
}

/// Writes a file that only its owner reads, as grid clients require of their keys.
fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap();
}

impl Pki {
    /// Makes everything below a directory.
    pub fn make(dir: &Path) -> Pki {
        let key = KeyPair::generate().unwrap();
        let mut authority = params("authority", Vec::new());
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let (ca, text) = (dir.join("ca.pem"), authority.self_signed(&key).unwrap().pem());
        fs::write(&ca, text).unwrap();
        let issuer = Issuer::new(authority, key);
        let addresses = ["127.0.0.1", "::1"].map(|ip| SanType::IpAddress(ip.parse().unwrap()));
        let mut host = vec![SanType::DnsName("localhost".try_into().unwrap())];
        host.extend(addresses);
        let sign_key = |key: KeyPair, common: &str, alternatives: Vec<SanType>, usage: ExtendedKeyUsagePurpose| {
            let mut params = params(common, alternatives);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
            // A host is a client as well where it pulls or pushes.
            params.extended_key_usages = vec![usage, ExtendedKeyUsagePurpose::ClientAuth];
            params.extended_key_usages.dedup();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            let files =
                Identity { certificate: dir.join(format!("{common}.pem")), key: dir.join(format!("{common}.key")) };
            fs::write(&files.certificate, certificate.pem()).unwrap();
            write_private(&files.key, &key.serialize_pem());
            files
        };
        let sign = |common: &str, alternatives: Vec<SanType>, usage: ExtendedKeyUsagePurpose| {
            sign_key(KeyPair::generate().unwrap(), common, alternatives, usage)
        };
        let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        Pki {
            robot: sign_key(rsa, "robot", Vec::new(), ExtendedKeyUsagePurpose::ClientAuth),
            host: sign("localhost", host, ExtendedKeyUsagePurpose::ServerAuth),
            alice: sign("alice", Vec::new(), ExtendedKeyUsagePurpose::ClientAuth),
            mallory: sign("mallory", Vec::new(), ExtendedKeyUsagePurpose::ClientAuth),
            directory: hashed_directory(dir, &ca),
            ca,
        }
    }
}

/// The directory of authorities that OpenSSL and Globus know: by the hash of the name, with a signing policy beside it.
fn hashed_directory(dir: &Path, ca: &Path) -> PathBuf {
    let output = Command::new("openssl").args(["x509", "-noout", "-hash", "-in"]).arg(ca).output();
    let output = output.expect("openssl is not installed (scripts/setup.sh installs it)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let hash = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let directory = dir.join("certificates");
    fs::create_dir(&directory).unwrap();
    fs::copy(ca, directory.join(format!("{hash}.0"))).unwrap();
    let policy = "access_id_CA X509 '/DC=test/CN=authority'\npos_rights globus CA:sign\ncond_subjects globus '\"*\"'\n";
    fs::write(directory.join(format!("{hash}.signing_policy")), policy).unwrap();
    directory
}
