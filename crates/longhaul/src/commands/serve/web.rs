//! The settings of `serve` for HTTP: certificates, authorities, and the collectors of fireflies.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use node::{Certificate, Origins, WebConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::client_authorities::client_authorities;
use crate::failure::Failure;
use crate::settings::{read_authorities, system_authorities};

/// The default port of collectors of fireflies (scitags.org).
const FIREFLY_PORT: u16 = 10514;

/// The options for HTTP, of the command line or the settings file.
#[derive(Clone, Debug, Default)]
pub struct WebOptions {
    pub certificate: Option<PathBuf>,
    pub certificate_key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
    pub vomsdir: Option<PathBuf>,
    pub cacert: Option<PathBuf>,
    pub access: Option<PathBuf>,
    pub fireflies: Vec<String>,
    pub allow_origin: Vec<String>,
}

/// The certificate that the options name, if any.
///
/// # Errors
/// A file cannot be read, or holds no certificate or key; or a key is named without a certificate.
pub fn certificate(file: Option<&PathBuf>, key_file: Option<&PathBuf>) -> Result<Option<Certificate>, Failure> {
    if file.is_none() && key_file.is_some() {
        return Err(Failure::usage("--certificate-key goes with --certificate"));
    }
    file.map(|file| read_certificate(file, key_file)).transpose()
}

fn read_certificate(file: &Path, key_file: Option<&PathBuf>) -> Result<Certificate, Failure> {
    let fail = |file: &Path, why: String| Failure::usage(format!("cannot use {}: {why}", file.display()));
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = read.map_err(|e| fail(file, format!("{e} (--certificate takes PEM)")))?;
    if chain.is_empty() {
        return Err(fail(file, "there is no certificate in it (--certificate takes PEM, the node's own first)".into()));
    }
    // Some sites keep the key in the same file.
    let key_file = key_file.map_or(file, PathBuf::as_path);
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|e| {
        fail(key_file, format!("{e} (--certificate-key takes the private key, PEM, without a password)"))
    })?;
    Ok(Certificate { chain, key })
}

fn collector(text: &str) -> Result<SocketAddr, Failure> {
    let fail = |why: String| Failure::usage(format!("--fireflies {text}: {why} (write HOST, HOST:PORT or [v6]:PORT)"));
    let is_bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let with_port = match text.rsplit_once(':') {
        _ if is_bare_v6 => format!("[{text}]:{FIREFLY_PORT}"),
        Some((_, port)) if !port.is_empty() && !text.ends_with(']') => text.to_owned(),
        _ => format!("{text}:{FIREFLY_PORT}"),
    };
    let found = with_port.to_socket_addrs().map_err(|e| fail(e.to_string()))?.next();
    found.ok_or_else(|| fail("the name has no address".into()))
}

/// The node's configuration for HTTP.
///
/// # Errors
/// A file cannot be read, or an option is wrong.
pub fn config(options: &WebOptions) -> Result<WebConfig, Failure> {
    let certificate = certificate(options.certificate.as_ref(), options.certificate_key.as_ref())?;
    let client_authorities = client_authorities(options.client_ca.as_deref(), options.vomsdir.as_deref())?;
    let authorities = match &options.cacert {
        Some(file) => read_authorities(file, "--cacert")?,
        None => Arc::new(system_authorities()),
    };
    if options.access.as_ref().is_some_and(|file| !file.exists()) {
        let file = options.access.as_deref().unwrap_or(Path::new("")).display().to_string();
        return Err(Failure::usage(format!("--access {file}: there is no such file")));
    }
    Ok(WebConfig {
        certificate: certificate.map(Arc::new),
        client_authorities,
        authorities: Some(authorities),
        access: options.access.clone(),
        origins: Origins::parse(&options.allow_origin).map_err(Failure::usage)?,
        fireflies: options.fireflies.iter().map(|text| collector(text)).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_without_a_port_gets_the_default_port() {
        assert_eq!(collector("127.0.0.1").unwrap(), "127.0.0.1:10514".parse().unwrap());
        assert_eq!(collector("::1").unwrap(), "[::1]:10514".parse().unwrap());
        assert_eq!(collector("[::1]:99").unwrap(), "[::1]:99".parse().unwrap());
        assert!(collector("").is_err());
    }
}
