//! Macaroons compared with the definition of the format and with one of XrdMacaroons, and attempts of holders to widen theirs.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;
use crate::access::{Access, Denied};
use crate::actions::Action;
use crate::grant::{Grant, Rights};

const SECRET: [u8; 32] = [0x5a; 32];
const NOW: i64 = 1_800_000_000;
/// The macaroon of xrootd 5.5.3 for a request for DOWNLOAD and LIST at /data.
const FROM_XROOTD: &str = concat!(
    "MDAxNWxvY2F0aW9uIERUTlRFU1QKMDAzNGlkZW50aWZpZXIgY2MxYjczM2EtYjQ1Mi00MzNkLWJiYTktMjdmOTg1MzYwNWZhCjAwMTNjaWQgbmFtZTph",
    "bGljZQowMDUyY2lkIGFjdGl2aXR5OlJFQURfTUVUQURBVEEsVVBMT0FELERPV05MT0FELERFTEVURSxNQU5BR0UsVVBEQVRFX01FVEFEQVRBLExJU1QK",
    "MDAxZmNpZCBhY3Rpdml0eTpET1dOTE9BRCxMSVNUCjAwMTNjaWQgcGF0aDovZGF0YQowMDI0Y2lkIGJlZm9yZToyMDI2LTExLTIwVDExOjQ1OjUzWgow",
    "MDJmc2lnbmF0dXJlICGLrnYvjDn6-rOrq_81BGGFjTrvSk8cts4fv_TKI1zeCg"
);

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

fn caveats(list: &[&str]) -> Vec<String> {
    list.iter().map(|caveat| (*caveat).to_owned()).collect()
}

fn good() -> String {
    let all =
        ["name:alice", "activity:READ_METADATA,DOWNLOAD,LIST,UPLOAD", "path:/data/a", "before:2030-01-01T00:00:00Z"];
    mint(&SECRET, "node", "uuid-1:0123456789abcdef", &caveats(&all))
}

fn held(text: &str) -> Result<VerifiedMacaroon, MacaroonError> {
    verify(&SECRET, text, NOW)
}

fn narrowed(list: &[&str]) -> Result<VerifiedMacaroon, MacaroonError> {
    held(&list.iter().fold(good(), |text, caveat| attenuate(&text, caveat).unwrap()))
}

/// HMAC-SHA256 as RFC 2104 defines it, without the code under test.
fn hmac_by_hand(key: &[u8], data: &[u8]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    let mut block = [0u8; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(data).finalize();
    Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().to_vec()
}

#[test]
fn the_signature_chain_is_that_of_libmacaroons() {
    let list = ["activity:LIST", "path:/d", "before:2030-01-01T00:00:00Z"];
    let text = mint(&SECRET, "loc", "u:h", &caveats(&list));
    // The generator is padded with zeros to the length of a key; that changes nothing, as HMAC pads as well.
    let mut generator = b"macaroons-key-generator".to_vec();
    generator.resize(32, 0);
    let mut signature = hmac_by_hand(&hmac_by_hand(&generator, &SECRET), b"u:h");
    for caveat in list {
        signature = hmac_by_hand(&signature, caveat.as_bytes());
    }
    let mut bytes = b"0011location loc\n0013identifier u:h\n0016cid activity:LIST\n0010cid path:/d\n\
        0024cid before:2030-01-01T00:00:00Z\n002fsignature "
        .to_vec();
    bytes.extend_from_slice(&signature);
    bytes.push(b'\n');
    assert_eq!(text, URL_SAFE_NO_PAD.encode(&bytes));
    assert_eq!(held(&text).map(|held| (held.path, held.activities)), Ok((path("d"), Activities::LIST)));
}

/// The example of libmacaroons' README, which every implementation is checked with.
#[test]
fn the_example_of_libmacaroons_has_its_signature() {
    let key = hmac_sha256(b"macaroons-key-generator", b"this is our super secret key; only we should know it");
    let first = hmac_sha256(&key, b"we used our secret key");
    let hex = |bytes: [u8; 32]| crate::hex(&bytes);
    assert_eq!(hex(first), "e3d9e02908526c4c0039ae15114115d97fdd68bf2ba379b342aaf0f617d0552f");
    let second = hmac_sha256(&first, b"test = caveat");
    assert_eq!(hex(second), "197bac7a044af33332865b9266e26d493bdd668a660e44d88ce1a998c23dbd67");
}

#[test]
fn a_macaroon_of_xrootd_is_read() {
    let packets = Packets::decode(FROM_XROOTD).unwrap();
    assert_eq!((packets.location.as_slice(), packets.caveats.len()), (&b"DTNTEST"[..], 5));
    assert_eq!(packets.identifier, b"cc1b733a-b452-433d-bba9-27f9853605fa");
    assert_eq!(packets.caveats[3], b"path:/data");
    let limits = CaveatLimits::of(&packets.caveats).unwrap();
    assert_eq!((limits.name.as_deref(), limits.path), (Some("alice"), Some(path("data"))));
    assert_eq!(limits.before, Some("2026-11-20T11:45:53Z".parse::<Timestamp>().unwrap().as_second()));
    let activities = limits.activities.unwrap();
    assert_eq!(activities, Activities::READ_METADATA | Activities::DOWNLOAD | Activities::LIST);
    assert_eq!(held(FROM_XROOTD), Err(MacaroonError::Signature));
    assert!(is_macaroon(FROM_XROOTD) && !is_macaroon("eyJhbGciOiJFUzI1NiJ9.e30.x") && !is_macaroon("MDAx"));
}

#[test]
fn every_form_of_base64_is_read() {
    let bytes = URL_SAFE_NO_PAD.decode(good()).unwrap();
    for text in [URL_SAFE.encode(&bytes), STANDARD.encode(&bytes), STANDARD_NO_PAD.encode(&bytes)] {
        assert!(held(&text).is_ok(), "{text}");
    }
}

#[test]
fn a_verified_macaroon_has_the_limits_of_its_caveats() {
    let held = held(&good()).unwrap();
    assert_eq!((held.uuid.as_str(), held.origin.as_str(), held.name.as_str()), ("uuid-1", "0123456789abcdef", "alice"));
    assert_eq!((held.holder(), held.path.clone()), ("macaroon:uuid-1".into(), path("data/a")));
    assert_eq!(held.before, Some(1_893_456_000));
    assert!(held.actions().contains(Actions::READ | Actions::CREATE) && !held.actions().contains(Actions::REMOVE));
}

#[test]
fn further_caveats_narrow_a_macaroon() {
    let after =
        narrowed(&["activity:DOWNLOAD,DELETE", "path:/data/a/b", "path:/data", "before:2028-01-01T00:00:00Z"]).unwrap();
    assert_eq!(after.activities, Activities::DOWNLOAD | Activities::READ_METADATA);
    assert_eq!((after.path, after.before), (path("data/a/b"), Some(1_830_297_600)));
    assert_eq!(narrowed(&["name:root"]).unwrap().name, "alice");
    assert_eq!(narrowed(&["before:2020-01-01T00:00:00Z"]).unwrap_err().to_string().split(' ').nth(2), Some("expired"));
    assert_eq!(narrowed(&["activity:DELETE"]), Err(MacaroonError::Nothing { what: "activity" }));
    for beside in ["path:/data/ab", "path:/other"] {
        assert_eq!(narrowed(&[beside]), Err(MacaroonError::Nothing { what: "path" }));
    }
}

#[test]
fn a_macaroon_with_an_unknown_caveat_is_refused() {
    for caveat in [
        "",
        "activity",
        "activity:",
        "activity:FLY",
        "activity:LIST,",
        "path:",
        "path:data",
        "path:/data/../x",
        "before:",
        "before:soon",
        "before:2030-01-01",
        "ip:",
        "ip:node.example",
        "ip:192.0.2.1,",
        "ip:192.0.2.1/33",
        "Activity:LIST",
        "root:/data",
        "time < 2030-01-01",
    ] {
        assert_eq!(narrowed(&[caveat]), Err(MacaroonError::Caveat { number: 5 }), "{caveat:?}");
    }
    let bare = |list: &[&str]| held(&mint(&SECRET, "l", "u:h", &caveats(list)));
    assert_eq!(bare(&["path:/d"]), Err(MacaroonError::NoActivity));
    assert_eq!(bare(&["activity:LIST"]), Err(MacaroonError::NoPath));
    assert_eq!(held(&mint(&SECRET, "l", "no-colon", &[])), Err(MacaroonError::Identifier));
}

#[test]
fn all_address_caveats_are_read() {
    let held = narrowed(&["ip:192.0.2.0/24,2001:db8::1", "ip:192.0.2.7"]).unwrap();
    let shown: Vec<Vec<String>> =
        held.addresses.iter().map(|nets| nets.iter().map(ToString::to_string).collect()).collect();
    assert_eq!(shown, [vec!["192.0.2.0/24", "2001:db8::1/128"], vec!["192.0.2.7/32"]]);
}

#[test]
fn the_provenance_of_a_macaroon_is_signed() {
    let text = mint(&SECRET, "l", "u:token:h rights=read issuer=i rule=r", &caveats(&["activity:LIST", "path:/d"]));
    let held = held(&text).unwrap();
    assert_eq!((held.origin.as_str(), held.holder()), ("token:h", "macaroon:u".to_owned()));
    let provenance = Provenance { rights: Actions::READ, issuer: Some("i".into()), rules: vec!["r".into()] };
    assert_eq!(held.provenance, Some(provenance));
    let odd = mint(&SECRET, "l", "u:token:h what=ever", &caveats(&["activity:LIST", "path:/d"]));
    assert_eq!(verify(&SECRET, &odd, NOW), Err(MacaroonError::Identifier));
}

#[test]
fn a_holder_that_could_not_examine_still_cannot() {
    let drop_box =
        held(&mint(&SECRET, "l", "u:h", &caveats(&["activity:UPLOAD", "activity:UPLOAD,READ_METADATA", "path:/d"])));
    assert!(!drop_box.unwrap().actions().contains(Actions::STAT));
}

#[test]
fn third_party_caveats_and_too_many_caveats_are_refused() {
    let mut bytes = URL_SAFE_NO_PAD.decode(good()).unwrap();
    let signature = bytes.split_off(bytes.len() - 0x2f);
    bytes.extend_from_slice(b"000acid x\n000avid y\n000bcl z z\n");
    bytes.extend_from_slice(&signature);
    assert_eq!(held(&URL_SAFE_NO_PAD.encode(&bytes)), Err(MacaroonError::ThirdParty));
    let many = (0..=crate::limits::CAVEATS).fold(good(), |text, _| attenuate(&text, "name:").unwrap_or(text));
    assert!(held(&many).is_ok(), "no caveat beyond the bound was added");
    let many = mint(&SECRET, "l", "u:h", &vec!["name:".to_owned(); crate::limits::CAVEATS + 1]);
    assert_eq!(held(&many), Err(MacaroonError::TooManyCaveats));
    assert!(matches!(held(&"A".repeat(9000)), Err(MacaroonError::TooLong { .. })));
    for bad in ["", "AAAA", "!", "MDAxNWxvY2F0aW9u", &good()[..good().len() - 8]] {
        assert!(matches!(held(bad), Err(MacaroonError::Malformed { .. })), "{bad}");
    }
}

fn granted(prefix: &str, rights: Rights) -> Access {
    let mut grant = Grant::new([1; 8], &[2; 32], "data".into(), &path(prefix), rights, 0);
    grant.expires = Some(NOW + 1000);
    Access::Granted(grant)
}

fn ask(access: &Access, at: &str, request: &str) -> Result<VerifiedMacaroon, Denied> {
    let path = path(at);
    let (export, location, uuid) = ("data", "node", "u-1");
    let context =
        MacaroonContext { access, issuer: None, export, writable: true, path: &path, location, uuid, now: NOW };
    let request = MacaroonRequest::parse(request.as_bytes(), 3600).unwrap();
    let issued = issue(&SECRET, &context, &request)?;
    assert!(!format!("{issued:?}").contains(&issued.text), "it is a secret");
    Ok(verify(&SECRET, &issued.text, NOW)?)
}

#[test]
fn a_macaroon_gives_no_more_than_its_requester_has() {
    let all = r#"{"validity":"PT2H"}"#;
    let reader =
        ask(&granted("a", Rights::Read), "a/b", r#"{"caveats":["activity:DOWNLOAD,UPLOAD"],"validity":"PT5M"}"#)
            .unwrap();
    assert_eq!(reader.activities, Activities::DOWNLOAD | Activities::READ_METADATA);
    assert_eq!((reader.path, reader.before), (path("data/a/b"), Some(NOW + 300)));
    assert_eq!((reader.origin.as_str(), reader.name.as_str()), ("0101010101010101", "0101010101010101"));
    let writer = ask(&granted("", Rights::Write), "", all).unwrap();
    assert!(writer.actions().contains(Action::Modify.needs()));
    assert_eq!(writer.before, Some(NOW + 1000), "no longer than the key");
    let drop_box = ask(&granted("", Rights::Create), "", all).unwrap();
    assert_eq!(drop_box.actions(), Actions::FOR_DROP);
    let sub = ask(&granted("a", Rights::Read), "a", r#"{"caveats":["path:/data/a/c"],"validity":"PT5M"}"#).unwrap();
    assert_eq!(sub.path, path("data/a/c"));
}

#[test]
fn anonymous_clients_delegated_keys_and_macaroons_get_no_macaroon() {
    let all = r#"{"validity":"PT2H"}"#;
    assert!(matches!(ask(&granted("a", Rights::Write), "", all), Err(Denied::Lacks { .. })), "above the key's path");
    let delete = r#"{"caveats":["activity:DELETE"],"validity":"PT5M"}"#;
    assert!(matches!(ask(&granted("a", Rights::Read), "a", delete), Err(Denied::Lacks { .. })));
    assert_eq!(ask(&Access::Anonymous(Rights::Write), "", all), Err(Denied::NoKey));
    let beside = r#"{"caveats":["path:/data/x"],"validity":"PT5M"}"#;
    assert!(matches!(ask(&granted("", Rights::Read), "a", beside), Err(Denied::CaveatPath { .. })));
    let mut grant = granted("", Rights::Write).grant().unwrap().clone();
    grant.expires = Some(NOW - 1);
    assert_eq!(ask(&Access::Granted(grant.clone()), "", all), Err(Denied::Expired { seconds_ago: 1 }));
    let (job, parent) = ("j".to_owned(), String::new());
    grant.errand = Some(crate::grant::DelegatedScope { job, path: None, parent, delete: false });
    assert!(matches!(ask(&Access::Granted(grant), "", all), Err(Denied::Rights { .. })));
}

proptest! {
    #[test]
    fn a_changed_macaroon_is_refused(at in 30usize..300, to in "[A-Za-z0-9_-]") {
        let good = good();
        // The location comes first and is not signed.
        let at = at % good.len().saturating_sub(1);
        prop_assume!(at >= 24);
        let mut changed = good.clone();
        changed.replace_range(at..=at, &to);
        prop_assert_eq!(held(&changed).is_err(), changed != good);
    }

    #[test]
    fn no_caveat_widens_a_macaroon(caveat in "(activity:(LIST|DELETE|UPLOAD|,){1,4}|path:/(data|/|a|\\.\\.){1,5}|before:20[0-9]{2}-01-01T00:00:00Z|.{0,20})") {
        let before = held(&good()).unwrap();
        if let Ok(after) = narrowed(&[&caveat]) {
            prop_assert!(before.actions().contains(after.actions()));
            prop_assert!(after.path.starts_with(&before.path));
            prop_assert!(after.before <= before.before);
        }
        crate::fuzzing::macaroon(caveat.as_bytes());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        crate::fuzzing::macaroon(&bytes);
        crate::fuzzing::macaroon(URL_SAFE_NO_PAD.encode(&bytes).as_bytes());
    }
}
