//! Chains and attributes that are made here, valid ones and each kind of wrong one.

mod attributes;
mod chains;
mod restrictions;

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::Authorities;

/// Noon of a day of 2026.
pub(super) const NOW: i64 = 1_780_000_000;
const PROXY_CERT_INFO: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 1, 14];
pub(super) const INHERIT_ALL: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 21, 1];
pub(super) const LIMITED: &[u64] = &[1, 3, 6, 1, 4, 1, 3536, 1, 1, 1, 9];

/// A certificate that can sign others.
pub(super) struct SigningCertificate {
    pub der: CertificateDer<'static>,
    pub params: CertificateParams,
    pub key: KeyPair,
}

fn time(seconds: i64) -> time::OffsetDateTime {
    time::OffsetDateTime::from_unix_timestamp(seconds).unwrap()
}

/// Parameters of a certificate that is valid from an hour before now until an hour after.
pub(super) fn params(names: &[(DnType, &str)]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    names.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
    (params.not_before, params.not_after) = (time(NOW - 3600), time(NOW + 3600));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params
}

pub(super) fn organisation() -> (DnType, &'static str) {
    (DnType::OrganizationName, "Grid")
}

/// rcgen accepts each type of attribute once: a CN by its number is another type for rcgen, and the same in DER.
pub(super) fn second_cn() -> DnType {
    DnType::CustomDnType(vec![2, 5, 4, 3])
}

impl SigningCertificate {
    pub fn authority() -> SigningCertificate {
        let mut params = params(&[organisation(), (DnType::OrganizationalUnitName, "Authority")]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let der = params.self_signed(&key).unwrap().der().clone();
        SigningCertificate { der, params, key }
    }

    pub fn sign(&self, params: CertificateParams) -> SigningCertificate {
        let issuer = Issuer::from_params(&self.params, &self.key);
        let key = KeyPair::generate().unwrap();
        let der = params.signed_by(&key, &issuer).unwrap().der().clone();
        SigningCertificate { der, params, key }
    }

    /// The certificate of a person, who has the serial number 7.
    pub fn person(&self) -> SigningCertificate {
        let mut params = params(&[organisation(), (DnType::OrganizationalUnitName, "Ann")]);
        params.serial_number = Some(SerialNumber::from(7));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// The name of this with another part.
    pub fn below(&self, kind: DnType, value: &str) -> CertificateParams {
        let mut params = params(&[]);
        params.distinguished_name = self.params.distinguished_name.clone();
        params.distinguished_name.push(kind, value);
        params
    }

    /// A proxy, with changes.
    pub fn proxy(&self, change: impl FnOnce(&mut CertificateParams)) -> SigningCertificate {
        let mut params = self.below(DnType::CommonName, "1234");
        params.custom_extensions = vec![proxy_info(INHERIT_ALL, None)];
        change(&mut params);
        self.sign(params)
    }
}

/// ProxyCertInfo with a language, and how many proxies may follow.
pub(super) fn proxy_info(language: &[u64], depth: Option<i64>) -> CustomExtension {
    let value = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            if let Some(depth) = depth {
                writer.next().write_i64(depth);
            }
            writer.next().write_sequence(|writer| {
                writer.next().write_oid(&yasna::models::ObjectIdentifier::from_slice(language));
            });
        });
    });
    let mut extension = CustomExtension::from_oid_content(PROXY_CERT_INFO, value);
    extension.set_criticality(true);
    extension
}

pub(super) fn trusting(authority: &SigningCertificate) -> Authorities {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).unwrap();
    Authorities::new(Arc::new(roots))
}
