//! Tests with the example file, and the messages about malformed files.

use proptest::prelude::*;

use super::super::rule::RuleSubject;
use super::*;

const EXAMPLE: &str = include_str!("../../../testdata/access.toml");

fn refused(text: &str) -> (usize, String) {
    match Policy::parse(text) {
        Err(PolicyError::Syntax { line, what }) => (line, what),
        Err(PolicyError::Meaning { line, what, remedy }) => (line, format!("{what}; {remedy}")),
        other => panic!("{text} was not refused: {other:?}"),
    }
}

#[test]
fn the_example_file_is_read() {
    let policy = Policy::parse(EXAMPLE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((policy.audiences.len(), policy.issuers.len(), policy.rules.len()), (2, 2, 6));
    let cms = policy.issuer("https://cms-auth.example.org/").unwrap();
    assert_eq!(
        (cms.profile, cms.export.as_deref(), cms.path.as_bytes()),
        (Some(Profile::Wlcg), Some("cms"), &b"store"[..])
    );
    assert_eq!(policy.issuer("https://cms-auth.example.org"), None, "an issuer is its exact URL");
    let ska = &policy.issuers[1];
    assert_eq!((ska.jwks.as_deref(), policy.audiences_for(ska).len()), (Some("/etc/longhaul/ska.jwks"), 3));
    assert_eq!(policy.rules[0].subject, RuleSubject::Anyone);
    let iss = "https://cms-auth.example.org/".to_owned();
    assert_eq!(policy.rules[1].subject, RuleSubject::Group { iss, group: "/cms/production".into() });
    assert_eq!(policy.rules[1].actions, Actions::FOR_READ | Actions::FOR_MODIFY);
    assert_eq!(policy.rules[2].addresses.len(), 2);
    let callout = policy.callout.as_ref().unwrap();
    assert_eq!((callout.timeout, callout.asked), (Duration::from_secs(5), AskedWhen::Undecided));
    assert!(policy.macaroons.on && !policy.third_party.local && policy.third_party.private);
    assert_eq!(policy.exports_named(), ["cms", "public", "scratch", "ska"]);
    let (inside, out) = ("192.0.2.1".parse().unwrap(), "192.0.2.66".parse().unwrap());
    assert!(policy.admits(inside) && !policy.admits(out));
    assert_eq!(policy.anyone_may(inside, "public", &RelPath::root()), Actions::FOR_READ);
    assert!(policy.anyone_may(inside, "cms", &RelPath::root()).is_empty());
}

#[test]
fn an_empty_file_gives_the_default_policy() {
    assert_eq!(Policy::parse("# nothing yet\n"), Ok(Policy::default()));
    let nothing = Policy::default();
    assert!(!nothing.macaroons.on && nothing.rules.is_empty() && nothing.issuers.is_empty());
}

#[test]
fn a_mistake_is_reported_with_its_line() {
    let issuer = "[[issuer]]\nname = \"a\"\niss = \"https://a\"\n";
    let allow = |lines: &str| format!("\n[[allow]]\nexport = \"e\"\nrights = [\"read\"]\n{lines}\n");
    let table: [(String, usize, &str); 21] = [
        ("audience = []".into(), 1, "unknown field"),
        ("\n\naudiences = [".into(), 3, ""),
        ("[[issuer]]\nname = \"a\"".into(), 1, "missing field `iss`"),
        ("\n[[issuer]]\nname = \"a\"\niss = \"http://a\"".into(), 2, "https"),
        (format!("{issuer}{issuer}"), 4, "twice"),
        (format!("{issuer}export = \"e\"\nexports = [\"e\"]"), 1, "exclude each other"),
        (format!("{issuer}export = \"a/b\""), 1, "name of an export"),
        (format!("{issuer}path = \"../x\""), 1, "without .."),
        (format!("{issuer}profile = \"x\""), 4, "unknown variant"),
        (allow(""), 2, "exactly one subject"),
        (allow("anyone = false"), 2, "exactly one subject"),
        (allow("anyone = true\nkey = \"00112233aabbccdd\""), 2, "exactly one subject"),
        (allow("dn = \"/O=x\"\nfqan = \"/cms\""), 2, "exactly one subject"),
        (allow("fqan = \"cms\""), 2, "is not a group or a role"),
        (allow("group = \"/a\""), 2, "exactly one subject"),
        (allow("group = \"/a\"\nissuer = \"b\""), 2, "no issuer \"b\""),
        (allow("key = \"x\""), 2, "longhaul grant list"),
        (allow("dn = \"Alice\""), 2, "openssl x509"),
        (allow("anyone = true\nfrom = [\"example.org\"]"), 2, "not resolved"),
        ("[callout]\ncommand = [\"ask\"]".into(), 1, "begin with a program"),
        ("[macaroons]\nmax_validity = \"10\"".into(), 1, "10"),
    ];
    for (text, line, word) in table {
        let (at, what) = refused(&text);
        assert!(at == line && what.contains(word), "{text}\nline {at}: {what}");
    }
    assert_eq!(refused("[[allow]]\nanyone = true\nexport = \"e\"\nrights = [\"fly\"]").0, 4);
    assert!(refused("[[allow]]\nanyone = true\nexport = \"e\"\nrights = []").1.contains("rights is empty"));
    assert!(refused("[third_party]\nmax_streams = 0").1.contains("1 to 100"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        crate::fuzzing::policy(&bytes);
    }

    #[test]
    fn a_changed_example_is_read_or_refused(at in 0usize..EXAMPLE.len(), with in "[a-z\"\\[\\]=\n#.]") {
        let mut changed = EXAMPLE.to_owned();
        changed.replace_range(at..=at, &with);
        crate::fuzzing::policy(changed.as_bytes());
    }
}
