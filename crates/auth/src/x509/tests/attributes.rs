//! VOMS attributes: accepted and refused ones.

use proptest::prelude::*;
use rcgen::{CustomExtension, DnType, ExtendedKeyUsagePurpose, KeyPair, SigningKey};
use rustls::pki_types::CertificateDer;
use yasna::models::{GeneralizedTime, ObjectIdentifier};
use yasna::{DERWriter, Tag};

use super::{NOW, SigningCertificate, organisation, params, time, trusting};
use crate::x509::{Authorities, Identity, VomsServers, verify};

const LSC: &str = "/O=Grid/CN=voms\n/O=Grid/OU=Authority\n";
const VOMS: &[u64] = &[1, 3, 6, 1, 4, 1, 8005, 100, 100];
const ECDSA_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];

/// The content of an attestation.
struct Attestation<'a> {
    vo: &'a str,
    fqans: &'a [&'a str],
    serial: u64,
    begins: i64,
    ends: i64,
    extension: Option<(&'a [u64], bool)>,
}

fn attestation() -> Attestation<'static> {
    let fqans = &["/astro/Role=production", "/astro"];
    Attestation { vo: "astro", fqans, serial: 7, begins: NOW, ends: NOW + 60, extension: None }
}

fn oid(writer: DERWriter<'_>, parts: &[u64]) {
    writer.write_oid(&ObjectIdentifier::from_slice(parts));
}

fn voms(last: u64) -> Vec<u64> {
    [VOMS, &[last]].concat()
}

/// The subject of a certificate, DER.
fn subject(certificate: &CertificateDer<'_>) -> Vec<u8> {
    x509_parser::parse_x509_certificate(certificate).unwrap().1.subject().as_raw().to_vec()
}

fn directory_name(writer: DERWriter<'_>, name: &[u8]) {
    writer.write_sequence(|writer| writer.next().write_tagged(Tag::context(4), |writer| writer.write_der(name)));
}

fn algorithm(writer: DERWriter<'_>) {
    writer.write_sequence(|writer| oid(writer.next(), ECDSA_SHA256));
}

fn info(attestation: &Attestation<'_>, issuer: &[u8], server: &SigningCertificate) -> Vec<u8> {
    let at = |seconds: i64| GeneralizedTime::from_datetime(time(seconds));
    let certificates = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_sequence(|writer| writer.next().write_der(&server.der));
        });
    });
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_u8(1);
            writer.next().write_sequence(|writer| {
                writer.next().write_tagged_implicit(Tag::context(0), |writer| {
                    writer.write_sequence(|writer| {
                        directory_name(writer.next(), issuer);
                        writer.next().write_u64(attestation.serial);
                    });
                });
            });
            writer.next().write_tagged_implicit(Tag::context(0), |writer| {
                writer.write_sequence(|writer| directory_name(writer.next(), &subject(&server.der)));
            });
            algorithm(writer.next());
            writer.next().write_u8(1);
            writer.next().write_sequence(|writer| {
                writer.next().write_generalized_time(&at(attestation.begins));
                writer.next().write_generalized_time(&at(attestation.ends));
            });
            writer.next().write_sequence(|writer| {
                writer.next().write_sequence(|writer| {
                    oid(writer.next(), &voms(4));
                    writer.next().write_set(|writer| fqans(writer.next(), attestation));
                });
            });
            writer.next().write_sequence(|writer| {
                writer.next().write_sequence(|writer| {
                    oid(writer.next(), &voms(10));
                    writer.next().write_bytes(&certificates);
                });
                if let Some((number, is_critical)) = attestation.extension {
                    writer.next().write_sequence(|writer| {
                        oid(writer.next(), number);
                        writer.next().write_bool(is_critical);
                        writer.next().write_bytes(&[0x30, 0]);
                    });
                }
            });
        });
    })
}

fn fqans(writer: DERWriter<'_>, attestation: &Attestation<'_>) {
    writer.write_sequence(|writer| {
        writer.next().write_tagged_implicit(Tag::context(0), |writer| {
            writer.write_sequence(|writer| {
                let uri = format!("{}://voms.example:15000", attestation.vo);
                writer.next().write_tagged_implicit(Tag::context(6), |writer| writer.write_ia5_string(&uri));
            });
        });
        writer.next().write_sequence(|writer| {
            attestation.fqans.iter().for_each(|fqan| writer.next().write_bytes(fqan.as_bytes()));
        });
    });
}

/// The extension of a proxy with one attribute certificate, signed by a key.
fn extension(info: &[u8], key: &KeyPair) -> CustomExtension {
    let signature = key.sign(info).unwrap();
    let value = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_sequence(|writer| {
                writer.next().write_sequence(|writer| {
                    writer.next().write_der(info);
                    algorithm(writer.next());
                    writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
                });
            });
        });
    });
    CustomExtension::from_oid_content(&voms(5), value)
}

struct VomsFixture {
    authority: SigningCertificate,
    server: SigningCertificate,
    person: SigningCertificate,
    authorities: Authorities,
}

impl VomsFixture {
    fn new() -> VomsFixture {
        let authority = SigningCertificate::authority();
        let mut params = params(&[organisation(), (DnType::CommonName, "voms")]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (server, person) = (authority.sign(params), authority.person());
        let mut authorities = trusting(&authority);
        authorities.voms.add("astro", LSC).unwrap();
        VomsFixture { authority, server, person, authorities }
    }

    fn show(&self, attestation: &Attestation<'_>, key: &KeyPair) -> Identity {
        let info = info(attestation, &subject(&self.authority.der), &self.server);
        let proxy = self.person.proxy(|params| params.custom_extensions.push(extension(&info, key)));
        verify(&[proxy.der, self.person.der.clone()], &self.authorities, NOW).unwrap()
    }

    fn refused(&self, attestation: &Attestation<'_>) -> String {
        let identity = self.show(attestation, &self.server.key);
        assert!(identity.attributes.is_empty(), "{:?}", identity.attributes);
        identity.refused_attributes.join("; ")
    }
}

#[test]
fn a_server_attests_groups_of_its_own_organisation_only() {
    let scene = VomsFixture::new();
    let identity = scene.show(&attestation(), &scene.server.key);
    assert_eq!(identity.refused_attributes, [""; 0]);
    let [attributes] = &identity.attributes[..] else { panic!("{identity:?}") };
    assert_eq!((attributes.vo.as_str(), attributes.expires), ("astro", NOW + 60));
    assert_eq!(attributes.server, "/O=Grid/CN=voms");
    assert_eq!(identity.fqans().collect::<Vec<_>>(), ["/astro/Role=production", "/astro"]);
    // A group of another organisation, or of one whose name has the same beginning.
    for foreign in ["/other", "/astronomy", "astro"] {
        assert!(
            scene
                .refused(&Attestation { fqans: &["/astro", foreign], ..attestation() })
                .contains("which is not its own")
        );
    }
    assert!(
        scene
            .refused(&Attestation { vo: "other", fqans: &["/other"], ..attestation() })
            .contains("no VOMS server of other")
    );
}

#[test]
fn refused_attributes_are_reported_with_their_reason() {
    let scene = VomsFixture::new();
    let text = scene.refused(&Attestation { ends: NOW - 1, ..attestation() });
    assert!(text.starts_with("the VOMS attributes of astro expired at 2026-05-28T20:26:39Z"), "{text}");
    assert!(scene.refused(&Attestation { begins: NOW + 61, ..attestation() }).contains("not valid before"));
    assert!(scene.refused(&Attestation { serial: 8, ..attestation() }).contains("about another certificate"));
    let targets: &[u64] = &[2, 5, 29, 55];
    assert!(
        scene
            .refused(&Attestation { extension: Some((targets, true)), ..attestation() })
            .contains("for certain hosts only")
    );
    let strange: &[u64] = &[1, 2, 3];
    assert!(
        scene
            .refused(&Attestation { extension: Some((strange, true)), ..attestation() })
            .contains("critical extension (1.2.3)")
    );
    assert_eq!(
        scene
            .show(&Attestation { extension: Some((strange, false)), ..attestation() }, &scene.server.key)
            .attributes
            .len(),
        1
    );
    assert!(scene.refused(&Attestation { vo: "", ..attestation() }).contains("damaged"));
}

#[test]
fn only_configured_servers_with_a_trusted_authority_are_accepted() {
    let mut scene = VomsFixture::new();
    // Signed by another key, with the server's certificate beside it.
    let identity = scene.show(&attestation(), &scene.person.key);
    assert_eq!(identity.refused_attributes, ["the VOMS attributes of astro were not signed by their server"]);
    scene.authorities.voms = VomsServers::default();
    assert!(scene.refused(&attestation()).contains("is no VOMS server of astro that is configured here"));
    // The names are right, and the authority is another one.
    let mut imposter = VomsFixture::new();
    let other = VomsFixture::new();
    imposter.server = SigningCertificate { der: other.server.der, params: other.server.params, key: other.server.key };
    assert!(imposter.refused(&attestation()).contains("no authority that is trusted here vouches for the VOMS server"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn attributes_with_a_byte_changed_attest_nothing(place in 0usize..2000, change in 1u8..=255) {
        thread_local! {
            static SCENE: (VomsFixture, Vec<u8>) = {
                let scene = VomsFixture::new();
                let info = info(&attestation(), &subject(&scene.authority.der), &scene.server);
                let value = extension(&info, &scene.server.key).content().to_vec();
                (scene, value)
            };
        }
        SCENE.with(|(scene, value)| {
            let mut value = value.clone();
            let place = place % value.len();
            value[place] ^= change;
            let extension = CustomExtension::from_oid_content(&voms(5), value);
            let proxy = scene.person.proxy(|params| params.custom_extensions.push(extension));
            let identity = verify(&[proxy.der, scene.person.der.clone()], &scene.authorities, NOW).unwrap();
            assert_eq!((identity.attributes.len(), identity.refused_attributes.len()), (0, 1));
        });
    }
}

#[test]
fn lists_of_servers_are_read_or_refused() {
    let mut servers = VomsServers::default();
    servers
        .add("astro", "# a comment\n/O=x/CN=a\n/O=x/CN=CA\n------ NEXT CHAIN ------\n/O=x/CN=b\n/O=x/CN=CA\n")
        .unwrap();
    for bad in ["", "/O=x/CN=a\n", "/O=x/CN=a\nrubbish\n", "/O=x/CN=a\n/O=x/CN=CA\n----- NEXT CHAIN -----\n/O=x/CN=b\n"]
    {
        assert!(servers.add("astro", bad).is_err(), "{bad:?}");
    }
    assert!(!servers.is_empty() && VomsServers::default().is_empty());
}
