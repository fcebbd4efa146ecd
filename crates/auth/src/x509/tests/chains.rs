//! Chains of proxies.

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyUsagePurpose, SanType};
use rustls::pki_types::CertificateDer;

use super::{
    INHERIT_ALL, LIMITED, NOW, SigningCertificate, organisation, params, proxy_info, second_cn, time, trusting,
};
use crate::x509::{ChainError, Identity, verify};

fn shown(authority: &SigningCertificate, chain: &[&SigningCertificate]) -> Result<Identity, ChainError> {
    let chain: Vec<CertificateDer<'static>> = chain.iter().map(|one| one.der.clone()).collect();
    verify(&chain, &trusting(authority), NOW)
}

/// The error about a proxy with a change.
fn refused(change: impl FnOnce(&mut CertificateParams)) -> String {
    let authority = SigningCertificate::authority();
    let person = authority.person();
    let proxy = person.proxy(change);
    shown(&authority, &[&proxy, &person]).unwrap_err().to_string()
}

#[test]
fn the_holder_of_a_proxy_is_identified_as_its_owner() {
    let authority = SigningCertificate::authority();
    let person = authority.person();
    let alone = shown(&authority, &[&person]).unwrap();
    assert_eq!((alone.name.as_str(), alone.grid_name.as_str()), ("OU=Ann,O=Grid", "/O=Grid/OU=Ann"));
    assert_eq!((alone.proxies, alone.is_limited, alone.expires), (0, false, NOW + 3600));

    let proxy = person.proxy(|params| params.not_after = time(NOW + 60));
    let second = proxy.proxy(|params| {
        *params = proxy.below(second_cn(), "5678");
        params.custom_extensions = vec![proxy_info(LIMITED, Some(0))];
    });
    let one = shown(&authority, &[&proxy, &person]).unwrap();
    assert_eq!((one.name.as_str(), one.proxies, one.is_limited, one.expires), ("OU=Ann,O=Grid", 1, false, NOW + 60));
    let two = shown(&authority, &[&second, &proxy, &person]).unwrap();
    assert_eq!((two.name.as_str(), two.proxies, two.is_limited), ("OU=Ann,O=Grid", 2, true));
}

#[test]
fn proxies_with_rsa_keys_are_accepted() {
    let authority = SigningCertificate::authority();
    let mut person = authority.person();
    let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let issuer = rcgen::Issuer::from_params(&authority.params, &authority.key);
    person.der = person.params.signed_by(&key, &issuer).unwrap().der().clone();
    person.key = key;
    let proxy = person.proxy(|_| {});
    assert_eq!(shown(&authority, &[&proxy, &person]).unwrap().proxies, 1);
    let (_, kind) = crate::x509::public_key(&person.der).unwrap();
    assert_eq!(kind, crate::x509::PublicKey::Rsa(2048));
}

#[test]
fn an_expired_certificate_is_named_in_the_error() {
    let text = refused(|params| params.not_after = time(NOW - 1));
    assert_eq!(text, "the proxy certificate /O=Grid/OU=Ann/CN=1234 expired at 2026-05-28T20:26:39Z: make a new one");
    assert!(refused(|params| params.not_before = time(NOW + 61)).contains("is not valid before"));
    let authority = SigningCertificate::authority();
    let person = authority.person();
    let early = person.proxy(|params| params.not_before = time(NOW + 60));
    assert!(shown(&authority, &[&early, &person]).is_ok(), "a clock may be ahead");

    // A proxy is not valid longer than its owner's certificate.
    let mut old = authority.person().params;
    old.not_after = time(NOW - 1);
    let old = authority.sign(old);
    let error = shown(&authority, &[&old.proxy(|_| {}), &old]).unwrap_err().to_string();
    assert!(error.starts_with("the certificate /O=Grid/OU=Ann expired at"), "{error}");
}

#[test]
fn only_the_owner_of_a_certificate_makes_its_proxies() {
    let authority = SigningCertificate::authority();
    let (person, other) = (authority.person(), authority.person());
    let proxy = person.proxy(|_| {});
    // The same name, and another key.
    let error = shown(&authority, &[&proxy, &other]).unwrap_err();
    assert_eq!(error, ChainError::Signature("/O=Grid/OU=Ann/CN=1234".into()));
    let error = shown(&authority, &[&proxy]).unwrap_err().to_string();
    assert!(error.contains("was not sent along"), "{error}");
    let error = shown(&SigningCertificate::authority(), &[&proxy, &person]).unwrap_err().to_string();
    assert!(
        error.starts_with("no authority that is trusted here vouches for the certificate /O=Grid/OU=Ann"),
        "{error}"
    );
    assert_eq!(shown(&authority, &[]), Err(ChainError::Empty));
    // A certificate with the authority's name is no proxy.
    let of_authority = authority.proxy(|_| {});
    assert!(shown(&authority, &[&of_authority, &authority]).is_err());
    assert!(matches!(shown(&authority, &[&authority]), Err(ChainError::EndEntity { .. })));
}

#[test]
fn a_proxy_may_bound_the_number_of_proxies_below_it() {
    let authority = SigningCertificate::authority();
    let person = authority.person();
    let last = person.proxy(|params| params.custom_extensions = vec![proxy_info(INHERIT_ALL, Some(0))]);
    assert!(shown(&authority, &[&last, &person]).is_ok());
    let below = last.proxy(|params| {
        *params = last.below(second_cn(), "5678");
        params.custom_extensions = vec![proxy_info(INHERIT_ALL, None)];
    });
    let error = shown(&authority, &[&below, &last, &person]).unwrap_err();
    assert_eq!(error, ChainError::Depth("/O=Grid/OU=Ann/CN=1234".into()));
}

#[test]
fn a_chain_with_too_many_proxies_or_without_an_end_entity_is_refused() {
    let authority = SigningCertificate::authority();
    let person = authority.person();
    let long = vec![&person; crate::limits::CHAIN_CERTIFICATES + 1];
    assert_eq!(shown(&authority, &long), Err(ChainError::TooLong));
    let large = CertificateDer::from(vec![0x30; crate::limits::CERTIFICATE_BYTES + 1]);
    assert_eq!(verify(&[large], &trusting(&authority), NOW), Err(ChainError::TooLong));
    let proxy = person.proxy(|_| {});
    let many = vec![&proxy; crate::limits::PROXIES + 1];
    assert_eq!(shown(&authority, &many), Err(ChainError::Proxies));
}

#[test]
fn a_proxy_adds_exactly_one_cn_to_its_issuers_name() {
    let other = |params: &mut CertificateParams, names: &[(DnType, &str)]| {
        params.distinguished_name = super::params(names).distinguished_name;
    };
    for names in [
        vec![organisation(), (DnType::CommonName, "Ann")],
        vec![organisation(), (DnType::OrganizationalUnitName, "Bob"), (DnType::CommonName, "1234")],
        vec![organisation(), (DnType::OrganizationalUnitName, "Ann"), (DnType::LocalityName, "x")],
        vec![organisation(), (DnType::OrganizationalUnitName, "Ann"), (DnType::CommonName, "1"), (second_cn(), "2")],
        vec![organisation(), (DnType::OrganizationalUnitName, "Ann")],
    ] {
        let error = refused(|params| other(params, &names));
        assert!(error.contains("its name is not that of its issuer and one CN"), "{error}");
    }
}

#[test]
fn a_proxy_that_breaks_a_rule_of_the_rfc_is_refused() {
    let ca = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    assert!(refused(ca).contains("it says that it is an authority's"));
    assert!(refused(|params| params.key_usages.push(KeyUsagePurpose::KeyCertSign)).contains("may sign certificates"));
    assert!(
        refused(|params| params.key_usages = vec![KeyUsagePurpose::KeyEncipherment]).contains("its key may not sign")
    );
    let named =
        |params: &mut CertificateParams| params.subject_alt_names = vec![SanType::DnsName("h".try_into().unwrap())];
    assert!(refused(named).contains("it has an alternative name"));
    let language = |oid: &'static [u64]| {
        move |params: &mut CertificateParams| params.custom_extensions = vec![proxy_info(oid, None)]
    };
    // Independent: it inherits nothing.
    assert!(refused(language(&[1, 3, 6, 1, 5, 5, 7, 21, 2])).contains("does not inherit all rights"));
    let loose = |params: &mut CertificateParams| params.custom_extensions[0].set_criticality(false);
    assert!(refused(loose).contains("ProxyCertInfo is not critical"));
    let twice = |params: &mut CertificateParams| params.custom_extensions.push(proxy_info(INHERIT_ALL, None));
    assert!(refused(twice).contains("is damaged"));

    let authority = SigningCertificate::authority();
    let mut mute = authority.person().params;
    mute.key_usages = vec![KeyUsagePurpose::KeyEncipherment];
    let mute = authority.sign(mute);
    assert!(
        shown(&authority, &[&mute.proxy(|_| {}), &mute]).unwrap_err().to_string().contains("above it may not sign")
    );
}

#[test]
fn older_kinds_of_proxies_are_refused_with_their_kind() {
    let legacy = |name: &'static str| {
        move |params: &mut CertificateParams| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.custom_extensions.clear();
        }
    };
    for name in ["proxy", "limited proxy"] {
        assert!(refused(legacy(name)).contains("is a legacy proxy certificate"));
    }
    let draft = |params: &mut CertificateParams| {
        let mut info = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 3536, 1, 222], vec![0x30, 0]);
        info.set_criticality(true);
        params.custom_extensions = vec![info];
    };
    assert!(refused(draft).contains("by a draft of RFC 3820"));
}

#[test]
fn the_name_of_an_identity_is_the_one_that_the_policy_parses() {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 25]), "org");
    params.distinguished_name.push(DnType::OrganizationName, "A, B+C");
    params.distinguished_name.push(DnType::CommonName, "Robot/CN=x");
    let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let name = crate::x509::subject(certificate.der()).unwrap().rfc4514();
    assert_eq!(name, "CN=Robot/CN\\=x,O=A\\, B\\+C,DC=org");
    assert_eq!(crate::policy::DistinguishedName::parse(&name).unwrap().rfc4514(), name);
    let mut nameless = CertificateParams::default();
    nameless.distinguished_name = rcgen::DistinguishedName::new();
    assert_eq!(crate::x509::subject(nameless.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der()), None);
}

#[test]
fn a_person_may_be_called_proxy() {
    let authority = SigningCertificate::authority();
    let person = authority.sign(params(&[organisation(), (DnType::CommonName, "proxy")]));
    assert_eq!(shown(&authority, &[&person]).unwrap().name, "CN=proxy,O=Grid");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_chain_with_a_byte_changed_proves_nobody(place in 0usize..2000, change in 1u8..=255) {
        thread_local! {
            static MADE: (SigningCertificate, Vec<CertificateDer<'static>>) = {
                let authority = SigningCertificate::authority();
                let person = authority.person();
                let proxy = person.proxy(|_| {});
                (authority, vec![proxy.der, person.der])
            };
        }
        MADE.with(|(authority, chain)| {
            let mut chain: Vec<Vec<u8>> = chain.iter().map(|one| one.to_vec()).collect();
            let which = place % 2;
            let at = place / 2 % chain[which].len();
            chain[which][at] ^= change;
            let chain: Vec<CertificateDer<'_>> = chain.into_iter().map(CertificateDer::from).collect();
            let _ = verify(&chain, &trusting(authority), NOW).expect_err("an identity was proved");
        });
    }
}
