//! The access of clients of each kind under one policy.

use super::*;
use crate::actions::Action;
use crate::issuer::Profile;
use crate::macaroon::{Activities, MacaroonContext, MacaroonRequest};

const POLICY: &str = r#"
    [[issuer]]
    name = "one"
    iss = "https://one.example"
    export = "cms"
    path = "store"

    [[issuer]]
    name = "many"
    iss = "https://many.example"
    exports = ["ska", "scratch"]

    [[issuer]]
    name = "all"
    iss = "https://all.example"

    [[allow]]
    anyone = true
    export = "public"
    rights = ["read"]

    [[allow]]
    anyone = true
    export = "inbox"
    rights = ["create"]
    from = ["192.0.2.0/24"]

    [[allow]]
    issuer = "one"
    group = "/cms/prod"
    export = "cms"
    path = "store/prod"
    rights = ["read", "write"]

    [[allow]]
    issuer = "one"
    subject = "bob"
    export = "cms"
    path = "home/bob"
    rights = ["write"]

    [[allow]]
    dn = "/DC=org/CN=Alice"
    export = "cms"
    rights = ["read"]

    [[allow]]
    fqan = "/cms/Role=production/Capability=NULL"
    export = "cms"
    path = "store/prod"
    rights = ["write"]

    [[allow]]
    fqan = "/cms"
    export = "cms"
    path = "store"
    rights = ["read"]

    [[allow]]
    key = "0101010101010101"
    export = "scratch"
    rights = ["read"]

    [addresses]
    refuse = ["203.0.113.0/24"]

    [macaroons]
"#;

fn policy() -> Policy {
    Policy::parse(POLICY).unwrap_or_else(|error| panic!("{error}"))
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

fn client<'a>() -> PresentedCredentials<'a> {
    PresentedCredentials::new("198.51.100.7".parse().unwrap())
}

fn may(access: &Access, action: Action, place: &str) -> bool {
    let (export, below) = place.split_once('/').unwrap_or((place, ""));
    access.allow(action, export, true, &path(below)).is_ok()
}

fn claims(iss: &str, subject: &str, scopes: &[(Actions, &str)], groups: &[&str]) -> Claims {
    let capability = |(actions, text): &(Actions, &str)| Capability {
        actions: *actions,
        path: path(text),
        dir_only: text.len() > 1 && text.ends_with('/'),
    };
    Claims {
        issuer: iss.into(),
        subject: subject.into(),
        id: None,
        expires: 99,
        profile: Profile::Wlcg,
        capabilities: scopes.iter().map(capability).collect(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

fn with_token(claims: &Claims) -> Result<Access, Denied> {
    policy().access(&PresentedCredentials { claims: Some(claims), ..client() })
}

#[test]
fn an_anonymous_client_gets_the_permits_for_anyone() {
    let access = policy().access(&client()).unwrap();
    assert!(access.is_anonymous() && may(&access, Action::Read, "public/x"));
    assert!(!may(&access, Action::Create, "inbox/x"));
    assert_eq!(access.holder(), "guest");
    let denied = access.allow(Action::Create, "public", true, &path("x")).unwrap_err();
    assert!(denied.is_unauthenticated(), "{denied}");
    let near = PresentedCredentials::new("::ffff:192.0.2.1".parse().unwrap());
    assert!(may(&policy().access(&near).unwrap(), Action::Create, "inbox/x"));
    let elsewhere = PresentedCredentials::new("203.0.113.9".parse().unwrap());
    let denied = policy().access(&elsewhere).unwrap_err();
    assert!(matches!(denied, Denied::Address(_)) && !denied.is_unauthenticated());
    assert_eq!(Policy::default().access(&client()), Err(Denied::NoKey));
}

#[test]
fn the_rights_of_anonymous_clients_add_to_those_of_rules() {
    let anonymous = PresentedCredentials { anonymous: Some(Rights::Read), ..client() };
    assert_eq!(Policy::default().access(&anonymous), Ok(Access::Anonymous(Rights::Read)));
    let near = PresentedCredentials { address: "192.0.2.1".parse().unwrap(), ..anonymous };
    let access = policy().access(&near).unwrap();
    assert!(may(&access, Action::Read, "anything/x") && may(&access, Action::Create, "inbox/x"));
    assert!(!may(&access, Action::Create, "anything/x") && access.may_see("anything"));
    assert!(access.prefix().is_root());
}

#[test]
fn scopes_are_relative_to_the_issuers_path() {
    let access =
        with_token(&claims("https://one.example", "bob", &[(Actions::FOR_READ, "/user/")], &["/cms/prod"])).unwrap();
    assert!(may(&access, Action::Read, "cms/store/user/x") && may(&access, Action::Stat, "cms/store"));
    assert!(access.only_as_dir(Action::Read, "cms", &path("store/user")));
    for other in ["cms/user/x", "cms/store/users", "cms/store/prod/x", "cms/home/bob", "ska/store/user"] {
        assert!(!may(&access, Action::Read, other), "{other}: groups and rules do not widen a token with scopes");
    }
    assert!(may(&access, Action::Read, "public/x"), "rules for anyone apply to every client");
    assert_eq!((access.who().as_str(), access.expires()), ("bob@https://one.example", Some(99)));
    assert!(!access.is_anonymous());
}

#[test]
fn scopes_may_name_their_export() {
    let scopes = [(Actions::FOR_READ, "/ska/a"), (Actions::FOR_MODIFY, "/scratch"), (Actions::FOR_READ, "/cms")];
    let access = with_token(&claims("https://many.example", "s", &scopes, &[])).unwrap();
    assert!(may(&access, Action::Read, "ska/a/x") && !may(&access, Action::Read, "ska/b"));
    assert!(may(&access, Action::Modify, "scratch/x"));
    assert!(!may(&access, Action::Read, "cms/x"), "not among the issuer's exports");
    let root = with_token(&claims("https://many.example", "s", &[(Actions::FOR_READ, "/")], &[])).unwrap();
    assert!(
        may(&root, Action::Read, "ska/x")
            && may(&root, Action::Read, "scratch/x")
            && !may(&root, Action::Read, "cms/x")
    );
    let all = with_token(&claims("https://all.example", "s", &[(Actions::FOR_READ, "/")], &[])).unwrap();
    assert!(may(&all, Action::Read, "cms/x") && !may(&all, Action::Create, "cms/x"));
}

#[test]
fn rules_for_groups_and_subjects_count_where_a_token_has_no_scopes() {
    let access = with_token(&claims("https://one.example", "bob", &[], &["/cms/prod"])).unwrap();
    assert!(may(&access, Action::Modify, "cms/store/prod/x") && may(&access, Action::Create, "cms/home/bob/x"));
    for groups in [["/cms"], ["/cms/prod/sub"], ["/cms/production"], ["cms/prod"]] {
        let access = with_token(&claims("https://one.example", "eve", &[], &groups)).unwrap();
        assert!(!may(&access, Action::Read, "cms/store/prod/x"), "{groups:?}");
    }
    let other = with_token(&claims("https://many.example", "bob", &[], &["/cms/prod"])).unwrap();
    assert!(!may(&other, Action::Read, "cms/store/prod/x") && !may(&other, Action::Create, "cms/home/bob/x"));
    let unknown = with_token(&claims("https://evil.example", "bob", &[], &[])).unwrap_err();
    assert!(matches!(unknown, Denied::Token(TokenError::Issuer(_))) && unknown.is_unauthenticated());
    let mut closed = policy();
    closed.rules.retain(|rule| rule.subject != RuleSubject::Anyone);
    let eve = claims("https://one.example", "eve", &[], &[]);
    let denied = closed.access(&PresentedCredentials { claims: Some(&eve), ..client() }).unwrap_err();
    assert!(matches!(denied, Denied::NoRight(_)) && !denied.is_unauthenticated());
}

#[test]
fn rules_for_certificates_match_either_form_of_the_name() {
    for dn in ["CN=Alice,DC=org", "/DC=org/CN=Alice"] {
        let access = policy().access(&PresentedCredentials { dn: Some(dn), ..client() }).unwrap();
        assert!(may(&access, Action::Read, "cms/x") && !may(&access, Action::Create, "cms/x"), "{dn}");
        assert_eq!(access.who(), "/DC=org/CN=Alice");
    }
    for dn in ["CN=alice,DC=org", "CN=Alice", "nonsense", "CN=Alice+UID=a,DC=org"] {
        let access = policy().access(&PresentedCredentials { dn: Some(dn), ..client() }).unwrap();
        assert!(!may(&access, Action::Read, "cms/x") && may(&access, Action::Read, "public/x"), "{dn}");
    }
    let narrow = claims("https://one.example", "bob", &[(Actions::FOR_READ, "/user")], &[]);
    let both = policy()
        .access(&PresentedCredentials { claims: Some(&narrow), dn: Some("CN=Alice,DC=org"), ..client() })
        .unwrap();
    assert!(!may(&both, Action::Read, "cms/x"), "a token decides alone");
}

#[test]
fn rules_for_groups_and_roles_match_verified_attributes_exactly() {
    let access = |fqans: &[&str]| {
        let fqans = fqans.iter().map(|fqan| (*fqan).to_owned()).collect();
        let attributes = [VomsAttributes { vo: "cms".into(), fqans, server: "/CN=voms".into(), expires: 1 }];
        policy()
            .access(&PresentedCredentials { dn: Some("CN=Bob,DC=org"), attributes: &attributes, ..client() })
            .unwrap()
    };
    let member = access(&["/cms/Role=NULL/Capability=NULL"]);
    assert!(may(&member, Action::Read, "cms/store/x") && !may(&member, Action::Modify, "cms/store/prod/x"));
    let producer = access(&["/cms/Role=production", "/cms"]);
    assert!(may(&producer, Action::Modify, "cms/store/prod/x") && !may(&producer, Action::Modify, "cms/store/x"));
    for other in ["/cms/prod", "/cms/Role=pilot", "/cmsx", "/atlas"] {
        assert!(!may(&access(&[other]), Action::Read, "cms/store/x"), "{other}");
    }
    assert_eq!(producer.who(), "/DC=org/CN=Bob", "the owner is named, not the role");
}

#[test]
fn a_key_without_a_rule_gives_its_grant() {
    let grant = Grant::new([2; 8], &[3; 32], "data".into(), &path("a"), Rights::Create, 0);
    let mut closed = policy();
    closed.rules.retain(|rule| rule.subject != RuleSubject::Anyone);
    let of = |policy: &Policy, grant: &Grant| policy.access(&PresentedCredentials { grant: Some(grant), ..client() });
    assert_eq!(of(&closed, &grant), Ok(Access::Granted(grant.clone())));
    assert_eq!(of(&Policy::default(), &grant), Ok(Access::Granted(grant.clone())));
    let wider = of(&policy(), &grant).unwrap();
    assert!(may(&wider, Action::Create, "data/a/x") && may(&wider, Action::Read, "public/x"));
    assert!(!may(&wider, Action::Stat, "data/a/x"), "a drop box stays one");
    assert_eq!(wider.holder(), "key:0202020202020202");
    let mut known = grant.clone();
    known.id = "0101010101010101".into();
    assert!(may(&of(&closed, &known).unwrap(), Action::Read, "scratch/x"));
    let (job, parent) = ("j".to_owned(), String::new());
    known.errand = Some(crate::grant::DelegatedScope { job, path: None, parent, delete: false });
    assert!(matches!(of(&policy(), &known), Ok(Access::Granted(_))), "rules add nothing to a key for one job");
}

#[test]
fn a_macaroon_gives_the_actions_of_its_caveats() {
    let mut macaroon = VerifiedMacaroon {
        identifier: "u:0101010101010101".into(),
        uuid: "u".into(),
        origin: "0101010101010101".into(),
        provenance: None,
        name: "alice".into(),
        activities: Activities::DOWNLOAD | Activities::LIST,
        path: path("cms/store"),
        addresses: Vec::new(),
        before: Some(7),
    };
    let access = policy().access(&PresentedCredentials { macaroon: Some(&macaroon), ..client() }).unwrap();
    assert!(may(&access, Action::Read, "cms/store/x") && !may(&access, Action::Read, "cms/x"));
    assert!(!may(&access, Action::Create, "cms/store/x"));
    assert_eq!((access.who().as_str(), access.holder(), access.expires()), ("macaroon alice", "macaroon:u", Some(7)));
    let off = Policy::default().access(&PresentedCredentials { macaroon: Some(&macaroon), ..client() });
    assert_eq!(off, Err(Denied::Macaroon(MacaroonError::Off)));
    macaroon.path = RelPath::root();
    let nowhere = policy().access(&PresentedCredentials { macaroon: Some(&macaroon), ..client() }).unwrap();
    assert!(!may(&nowhere, Action::Read, "cms/x"), "a macaroon for the whole node is for no export");
}

#[test]
fn holders_have_different_ids() {
    let of = |iss: &str, subject: &str| with_token(&claims(iss, subject, &[], &[])).unwrap().holder().to_owned();
    let bob = of("https://one.example", "bob");
    assert_eq!(bob, of("https://one.example", "bob"), "the next token of the same subject is the same holder");
    assert_ne!(bob, of("https://many.example", "bob"));
    assert_ne!(bob, of("https://one.example", "bobby"));
    assert!(bob.starts_with("token:") && bob.len() == 38);
    let odd = of("https://one.example", "a\nb\u{1b}[31m");
    assert!(odd.bytes().all(|b| b.is_ascii_graphic()));
    let shown = with_token(&claims("https://one.example", "a\nb", &[], &[])).unwrap().who();
    assert_eq!(shown, "a?b@https://one.example");
}

/// Issues a macaroon to this client under this policy, and verifies it.
fn made(policy: &Policy, client: &PresentedCredentials<'_>, at: &str, activities: &str) -> VerifiedMacaroon {
    let access = policy.access(client).unwrap();
    let (export, below) = at.split_once('/').unwrap_or((at, ""));
    let (path, issuer, now) = (path(below), client.claims.map(|claims| claims.issuer.as_str()), 10);
    let context =
        MacaroonContext { access: &access, issuer, export, writable: true, path: &path, location: "l", uuid: "u", now };
    let request = format!(r#"{{"caveats":["activity:{activities}"],"validity":"PT1M"}}"#);
    let request = MacaroonRequest::parse(request.as_bytes(), 60).unwrap();
    let issued = crate::macaroon::issue(&[7; 32], &context, &request).unwrap();
    crate::macaroon::verify(&[7; 32], &issued.text, now).unwrap()
}

/// The access of its holder from an address.
fn with(policy: &Policy, macaroon: &VerifiedMacaroon, address: &str) -> Result<Access, Denied> {
    policy.access(&PresentedCredentials {
        macaroon: Some(macaroon),
        ..PresentedCredentials::new(address.parse().unwrap())
    })
}

#[test]
fn a_macaroon_is_accepted_from_the_addresses_of_its_rule() {
    let text =
        POLICY.replace("    dn = \"/DC=org/CN=Alice\"", "    from = [\"192.0.2.0/24\"]\n    dn = \"/DC=org/CN=Alice\"");
    let bound = Policy::parse(&text).unwrap();
    let alice = PresentedCredentials {
        dn: Some("/DC=org/CN=Alice"),
        ..PresentedCredentials::new("192.0.2.1".parse().unwrap())
    };
    let macaroon = made(&bound, &alice, "cms", "DOWNLOAD,LIST");
    assert_eq!(macaroon.addresses.len(), 1);
    assert!(may(&with(&bound, &macaroon, "192.0.2.9").unwrap(), Action::Read, "cms/x"));
    let denied = with(&bound, &macaroon, "198.51.100.7").unwrap_err();
    assert!(matches!(denied, Denied::Macaroon(MacaroonError::Address(_))) && denied.is_unauthenticated(), "{denied}");
    // Actions that every client may do are not restricted to these addresses.
    let free = made(&bound, &alice, "public", "DOWNLOAD");
    assert!(free.addresses.is_empty() && with(&bound, &free, "198.51.100.7").is_ok());
}

#[test]
fn a_macaroon_ends_with_the_rules_and_issuers_that_it_was_made_from() {
    let (all, here) = (policy(), "198.51.100.7");
    let gone = |policy: &Policy, macaroon: &VerifiedMacaroon| {
        let denied = with(policy, macaroon, here).unwrap_err();
        assert!(matches!(denied, Denied::Macaroon(MacaroonError::Void)) && denied.is_unauthenticated(), "{denied}");
    };
    let without = |is_gone: &dyn Fn(&RuleSubject) -> bool| {
        let mut left = all.clone();
        left.rules.retain(|rule| !is_gone(&rule.subject));
        left
    };
    let mut untrusted = all.clone();
    untrusted.issuers.retain(|issuer| issuer.name != "one");
    // A certificate, by its rule.
    let dn = made(&all, &PresentedCredentials { dn: Some("/DC=org/CN=Alice"), ..client() }, "cms", "DOWNLOAD");
    assert!(may(&with(&all, &dn, here).unwrap(), Action::Read, "cms/x"));
    gone(&without(&|who| matches!(who, RuleSubject::Dn(_))), &dn);
    // A group, by its rule and its issuer; another rule of the same issuer does not replace it.
    let claims = |scopes: &[(Actions, &str)]| claims("https://one.example", "eve", scopes, &["/cms/prod"]);
    let group =
        made(&all, &PresentedCredentials { claims: Some(&claims(&[])), ..client() }, "cms/store/prod", "DOWNLOAD");
    assert!(may(&with(&all, &group, here).unwrap(), Action::Read, "cms/store/prod/x"));
    gone(&without(&|who| matches!(who, RuleSubject::Group { .. })), &group);
    gone(&untrusted, &group);
    // Scopes need their issuer, and no rule.
    let scopes = claims(&[(Actions::FOR_READ, "/user")]);
    let scopes = made(&all, &PresentedCredentials { claims: Some(&scopes), ..client() }, "cms/store/user", "DOWNLOAD");
    assert!(may(&with(&without(&|_| true), &scopes, here).unwrap(), Action::Read, "cms/store/user/x"));
    gone(&untrusted, &scopes);
    // Without the rule, the actions that it gave are gone; those of the key itself stay.
    let grant = Grant::new([1; 8], &[3; 32], "scratch".into(), &path("a"), Rights::Create, 0);
    let key = made(&all, &PresentedCredentials { grant: Some(&grant), ..client() }, "scratch/a", "DOWNLOAD,UPLOAD");
    assert!(may(&with(&all, &key, here).unwrap(), Action::Read, "scratch/a/x"));
    let left = with(&without(&|who| matches!(who, RuleSubject::Key(_))), &key, here).unwrap();
    assert!(!may(&left, Action::Read, "scratch/a/x") && may(&left, Action::Create, "scratch/a/x"));
    // Made by a version that recorded no provenance.
    gone(&all, &VerifiedMacaroon { provenance: None, ..dn });
}
