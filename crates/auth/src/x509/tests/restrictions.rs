//! What authorities revoke, and the names that they may sign.

use rcgen::{
    BasicConstraints, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyUsagePurpose,
    RevokedCertParams, SerialNumber,
};

use super::{NOW, SigningCertificate, organisation, params, time, trusting};
use crate::x509::{Authorities, ChainError, verify};

/// An authority that signs certificates and revocation lists.
fn authority_with_lists() -> SigningCertificate {
    let mut authority = SigningCertificate::authority();
    authority.params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.der = authority.params.self_signed(&authority.key).unwrap().der().clone();
    authority
}

/// A list in which an authority revokes certificates by their serial numbers, until its next update.
fn revocation_list(authority: &SigningCertificate, serials: &[u64], next_update: i64) -> Vec<u8> {
    let revoked = |serial: &u64| RevokedCertParams {
        serial_number: SerialNumber::from(*serial),
        revocation_time: time(NOW - 60),
        reason_code: None,
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: time(NOW - 7200),
        next_update: time(next_update),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: serials.iter().map(revoked).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let issuer = Issuer::from_params(&authority.params, &authority.key);
    list.signed_by(&issuer).unwrap().pem().unwrap().into_bytes()
}

fn with_list(authority: &SigningCertificate, list: &[u8]) -> Authorities {
    let mut authorities = trusting(authority);
    authorities.revocation_lists.add(list).unwrap();
    authorities
}

fn with_policy(authority: &SigningCertificate, patterns: &str) -> Authorities {
    let mut authorities = trusting(authority);
    let text = format!(
        "access_id_CA X509 '/O=Grid/OU=Authority'\npos_rights globus CA:sign\ncond_subjects globus '{patterns}'\n"
    );
    authorities.signing_policies.add(&text).unwrap();
    authorities
}

#[test]
fn a_revoked_certificate_is_refused_with_all_its_proxies() {
    let authority = authority_with_lists();
    let person = authority.person();
    let proxy = person.proxy(|_| {});
    let chain = [proxy.der.clone(), person.der.clone()];
    let free = with_list(&authority, &revocation_list(&authority, &[6, 8], NOW + 60));
    assert_eq!(verify(&chain, &free, NOW).unwrap().proxies, 1);
    let revoked = with_list(&authority, &revocation_list(&authority, &[6, 7], NOW + 60));
    for chain in [&chain[..], &chain[1..]] {
        let error = verify(chain, &revoked, NOW).unwrap_err();
        let (name, issuer) = ("/O=Grid/OU=Ann".to_owned(), "/O=Grid/OU=Authority".to_owned());
        assert_eq!(error, ChainError::Revoked { name, issuer });
    }
}

#[test]
fn the_certificates_of_an_authority_with_an_old_list_are_refused() {
    let authority = authority_with_lists();
    let person = authority.person();
    let old = with_list(&authority, &revocation_list(&authority, &[], NOW - 60));
    let error = verify(std::slice::from_ref(&person.der), &old, NOW).unwrap_err();
    assert_eq!(error, ChainError::OldRevocationList { name: "/O=Grid/OU=Ann".to_owned() });
    assert!(error.to_string().contains("fetch-crl"), "the remedy is named");
}

#[test]
fn a_list_that_its_authority_did_not_sign_does_not_count_as_its_list() {
    let (authority, other) = (authority_with_lists(), authority_with_lists());
    let person = authority.person();
    // The same name, and another key: nobody can lift a revocation by a list of their own.
    let forged = with_list(&authority, &revocation_list(&other, &[], NOW + 60));
    assert!(matches!(verify(std::slice::from_ref(&person.der), &forged, NOW), Err(ChainError::EndEntity { .. })));
}

#[test]
fn an_intermediate_authority_can_be_revoked() {
    let authority = authority_with_lists();
    let mut between = params(&[organisation(), (DnType::OrganizationalUnitName, "Between")]);
    between.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    between.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    between.serial_number = Some(SerialNumber::from(99));
    let between = authority.sign(between);
    let person = between.person();
    let chain = [person.der.clone(), between.der.clone()];
    assert!(verify(&chain, &with_list(&authority, &revocation_list(&authority, &[], NOW + 60)), NOW).is_ok());
    let revoked = with_list(&authority, &revocation_list(&authority, &[99], NOW + 60));
    assert!(matches!(verify(&chain, &revoked, NOW), Err(ChainError::Revoked { .. })));
    // The policy of the root is about the name of the intermediate authority, not about the person's.
    let narrow = with_policy(&authority, "\"/O=Grid/OU=Between\"");
    assert!(verify(&chain, &narrow, NOW).is_ok());
    let other = with_policy(&authority, "\"/O=Grid/OU=Ann\"");
    assert!(matches!(verify(&chain, &other, NOW), Err(ChainError::SigningPolicy { .. })));
}

#[test]
fn an_authority_signs_only_the_names_of_its_policy() {
    let authority = SigningCertificate::authority();
    let person = authority.person();
    assert!(
        verify(std::slice::from_ref(&person.der), &with_policy(&authority, "\"/O=Other/*\" \"/O=Grid/*\""), NOW)
            .is_ok()
    );
    let error =
        verify(std::slice::from_ref(&person.der), &with_policy(&authority, "\"/O=Grid/CN=*\""), NOW).unwrap_err();
    let (authority_name, name) = ("/O=Grid/OU=Authority".to_owned(), "/O=Grid/OU=Ann".to_owned());
    assert_eq!(error, ChainError::SigningPolicy { authority: authority_name, name });

    // A slash in a value passes for no other part.
    let mut disguised = authority.person().params;
    disguised.distinguished_name = params(&[(DnType::OrganizationName, "Grid/CN=x")]).distinguished_name;
    let disguised = authority.sign(disguised);
    let error =
        verify(std::slice::from_ref(&disguised.der), &with_policy(&authority, "\"/O=Grid/CN=*\""), NOW).unwrap_err();
    assert!(matches!(error, ChainError::SigningPolicy { .. }), "{error}");
}
