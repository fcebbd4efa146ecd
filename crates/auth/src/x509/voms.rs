//! VOMS attributes: the groups and roles that a server of a virtual organisation attests to the owner of a certificate, in an attribute
//! certificate (RFC 5755) in an extension of a proxy.
//!
//! Attributes are accepted if the server's certificate signed them, if the configured list names that server for that organisation, if an
//! authority signed the server's certificate, if they are about the end-entity of this chain, and while they are valid.

mod attribute_certificate;
mod lsc;

use rustls::pki_types::CertificateDer;
use webpki::{ExtendedKeyUsageValidator, KeyPurposeIdIter};

use self::attribute_certificate::AttributeCertificate;
pub use self::lsc::{LscError, VomsServers};
use super::certificate::{Certificate, SignatureProblem};
use super::error::at;
use super::{Authorities, path};
use crate::limits::{ATTRIBUTE_CERTIFICATES, SKEW_SECONDS};
use crate::token::shown;
use crate::voms_attributes::VomsAttributes;

/// The extension of a proxy that holds attribute certificates.
pub(super) const ATTRIBUTES: &str = "1.3.6.1.4.1.8005.100.100.5";

/// The accepted attributes of a chain, and the reasons why others are refused. Only those of the newest proxy that has some are read.
pub(super) fn attributes(
    proxies: &[Certificate<'_>],
    end_entity: &Certificate<'_>,
    authorities: &Authorities,
    now: i64,
) -> (Vec<VomsAttributes>, Vec<String>) {
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    let found = proxies.iter().find_map(|proxy| proxy.extension(ATTRIBUTES).ok().flatten());
    let Some(extension) = found else { return (good, refused) };
    let Some(all) = attribute_certificate::split(extension.value) else {
        return (good, vec!["the VOMS attributes in the proxy are damaged".to_owned()]);
    };
    if all.len() > ATTRIBUTE_CERTIFICATES {
        return (good, vec![format!("the proxy has VOMS attributes of more than {ATTRIBUTE_CERTIFICATES} servers")]);
    }
    for one in all {
        match verify(one, end_entity, authorities, now) {
            Ok(attributes) => good.push(attributes),
            Err(why) => refused.push(why),
        }
    }
    (good, refused)
}

/// Parses all attribute certificates of an extension, without verifying any.
pub(super) fn read_all(value: &[u8]) {
    for one in attribute_certificate::split(value).unwrap_or_default() {
        let _ = AttributeCertificate::parse(one);
    }
}

fn verify(
    der: &[u8],
    end_entity: &Certificate<'_>,
    authorities: &Authorities,
    now: i64,
) -> Result<VomsAttributes, String> {
    let read = AttributeCertificate::parse(der).ok_or("the VOMS attributes in the proxy are damaged")?;
    let vo = shown(&read.vo);
    if read.ends < now {
        return Err(format!("the VOMS attributes of {vo} expired at {}: make a new proxy", at(read.ends)));
    }
    if read.begins > now.saturating_add(SKEW_SECONDS) {
        return Err(format!(
            "the VOMS attributes of {vo} are not valid before {}: look at the clocks",
            at(read.begins)
        ));
    }
    if !read.is_about(end_entity) {
        return Err(format!("the VOMS attributes of {vo} are about another certificate"));
    }
    if read.has_targets {
        return Err(format!("the VOMS attributes of {vo} are for certain hosts only, and count for none here"));
    }
    if let Some(oid) = &read.unknown_critical {
        return Err(format!("the VOMS attributes of {vo} have a critical extension ({oid}) that is not known"));
    }
    let prefix = format!("/{}", read.vo);
    let is_own =
        |fqan: &String| fqan.strip_prefix(&prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if let Some(other) = read.fqans.iter().find(|fqan| !is_own(fqan)) {
        return Err(format!("the VOMS server of {vo} attests {}, which is not its own", shown(other)));
    }
    let server = server(&read, authorities, now)?;
    Ok(VomsAttributes { vo: read.vo, fqans: read.fqans, server, expires: read.ends })
}

/// Verifies the server that signed: it is configured, an authority signed its certificate, and its key made the signature. Returns its
/// name.
fn server(read: &AttributeCertificate<'_>, authorities: &Authorities, now: i64) -> Result<String, String> {
    let vo = shown(&read.vo);
    let damaged = || format!("the certificate of the VOMS server in the attributes of {vo} is damaged");
    let chain: Vec<CertificateDer<'_>> = read.certificates.iter().map(|der| CertificateDer::from(*der)).collect();
    let Some((own, above)) = chain.split_first() else {
        return Err(format!("the VOMS attributes of {vo} do not hold the certificate of their server"));
    };
    let own = Certificate::parse(own).map_err(|_| damaged())?;
    let above: Vec<Certificate<'_>> =
        above.iter().map(Certificate::parse).collect::<Result<_, _>>().map_err(|_| damaged())?;
    let name = own.name().ok_or_else(damaged)?;
    if !read.issuers.contains(&own.parsed.subject().as_raw()) {
        return Err(format!("the VOMS attributes of {vo} name another issuer than the certificate that they hold"));
    }
    // The names from the server up to the last one that signed, as an .lsc file lists them.
    let mut names = vec![name.clone()];
    for one in std::iter::once(&own).chain(&above) {
        names.push(one.issuer().ok_or_else(damaged)?);
    }
    if !authorities.voms.know(&read.vo, &names) {
        return Err(format!("{} is no VOMS server of {vo} that is configured here", shown(&name.to_string())));
    }
    path::verify(&own, &chain[1..], authorities, now, AnyUsage).map_err(|error| {
        format!("no authority that is trusted here vouches for the VOMS server {}: {error:?}", shown(&name.to_string()))
    })?;
    match read.signed.verify(&own) {
        Ok(()) => Ok(name.to_string()),
        Err(SignatureProblem::Wrong) => Err(format!("the VOMS attributes of {vo} were not signed by their server")),
        Err(SignatureProblem::Algorithm) => {
            Err(format!("the VOMS attributes of {vo} are signed with an algorithm or a key that is too weak"))
        }
    }
}

/// Accepts every extended key usage: certificates of VOMS servers are for servers, for clients, or have none. The configured list decides.
struct AnyUsage;

impl ExtendedKeyUsageValidator for AnyUsage {
    fn validate(&self, _: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        Ok(())
    }
}
