//! curl authenticates by keys, tokens and certificates; and the answers where that is not enough.

use serde_json::json;

use super::FORTY;
use crate::case::Case;
use crate::clients::Reply;
use crate::context::CaseContext;
use crate::tokens::Signature;

const CURL: &str = "curl";

pub const CASES: &[Case] = &[
    Case::new(CURL, "auth-none", "GET without a credential", "401, `WWW-Authenticate: Bearer`", none).stock("403"),
    Case::new(CURL, "auth-token", "GET and PUT with a WLCG token (ES256)", "200, 201", token).stock("200 for PUT"),
    Case::new(CURL, "auth-token-rs256", "GET with a WLCG token (RS256)", "200", token_rs256),
    Case::new(CURL, "auth-scitoken", "GET with a SciToken", "200", scitoken),
    Case::new(CURL, "auth-bad-token", "GET with a forged, expired, foreign or broken token", "401", bad_token)
        .stock("403"),
    Case::new(CURL, "auth-forged-clear", "the same over http", "401", forged_clear).stock("403"),
    Case::new(
        CURL,
        "auth-other-rights",
        "GET with a good token for another path; PUT with one to read",
        "403",
        other_rights,
    ),
    Case::new(CURL, "auth-create", "PUT with `storage.create`: new, then over it; DELETE", "201, 403, 403", create)
        .stock("200 for the first"),
    Case::new(CURL, "auth-prefix", "GET of `/pathology` with a token for `/path`", "403", prefix)
        .stock("200: compares letters, not components"),
    Case::new(CURL, "auth-url", "GET with `?authz=Bearer%20TOKEN`", "200, and no token in the log", url),
    Case::new(CURL, "auth-key", "GET and PUT with an access key as bearer", "200, 201", key).stock("has no keys"),
    Case::new(CURL, "auth-basic", "GET with an access key as the password of Basic", "200", basic).stock("has no keys"),
    Case::new(CURL, "auth-read-key", "PUT with a key to read", "403", read_key).stock("has no keys"),
    Case::new(CURL, "auth-bad-key", "GET with a key that was never granted", "401", bad_key).stock("has no keys"),
    Case::new(
        CURL,
        "auth-certificate",
        "GET and PUT with a certificate that the policy knows",
        "200, 201",
        certificate,
    )
    .stock("asks for tokens only"),
    Case::new(CURL, "auth-stranger", "PUT with a certificate that the policy does not know", "403", stranger),
    Case::new(CURL, "proxy", "GET with a grid proxy: beside a token, and alone", "200", proxied),
    Case::new(CURL, "auth-before-body", "PUT with `Expect` and no credential", "401 and no 100", before_body)
        .stock("403"),
];

/// Requests a path of the closed server with a bearer token.
fn bearer(context: &CaseContext, token: &str, more: &[&str], url: &str) -> Reply {
    let header = format!("Authorization: Bearer {token}");
    context.curl(&[&["-H", &header], more, &[url]].concat())
}

fn none(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    context
        .curl(&[&dir.https("f")])
        .expect_status(401)
        .expect_header_part("www-authenticate", "Bearer")
        .expect_without("0123456789");
    context.curl(&["-X", "PROPFIND", "-H", "Depth: 0", &dir.https("f")]).expect_status(401);
}

fn token(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", FORTY));
    let token = context.token(&["read", "modify"]);
    bearer(context, &token, &["-T", &file], &dir.https("f")).expect_status(201);
    bearer(context, &token, &[], &dir.https("f")).expect_status(200).expect_body(FORTY);
}

fn token_rs256(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    let tokens = &context.test_bed.tokens;
    let token = tokens.sign(&tokens.claims(&context.scope("read")), Signature::Rs256);
    bearer(context, &token, &[], &dir.https("f")).expect_status(200).expect_body(FORTY);
}

fn scitoken(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    let scope = context.scope("read").replace("storage.", "");
    let token = context.test_bed.tokens.with(&scope, json!({"wlcg.ver": null, "ver": "scitoken:2.0"}));
    bearer(context, &token, &[], &dir.https("f")).expect_status(200).expect_body(FORTY);
}

/// Tokens that are not valid, with what is wrong.
fn invalid_tokens(context: &CaseContext) -> Vec<(&'static str, String)> {
    let (tokens, scope) = (&context.test_bed.tokens, context.scope("read"));
    vec![
        ("forged", tokens.sign(&tokens.claims(&scope), Signature::Forged)),
        ("expired", tokens.expired(&scope)),
        ("for another audience", tokens.with(&scope, json!({"aud": "https://other.test"}))),
        ("of another issuer", tokens.with(&scope, json!({"iss": "https://other.test/"}))),
        ("of another version", tokens.with(&scope, json!({"wlcg.ver": "9.9"}))),
        ("no token", "e30.e30.e30".into()),
        ("nothing like it", "rubbish".into()),
    ]
}

fn assert_invalid_tokens_refused(context: &CaseContext, url: &str) {
    for (what, token) in invalid_tokens(context) {
        let reply = bearer(context, &token, &[], url);
        assert_eq!(reply.status, 401, "{what}: {reply:?}");
        reply.expect_header_part("www-authenticate", "Bearer").expect_without("0123456789");
    }
}

fn bad_token(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    assert_invalid_tokens_refused(context, &dir.https("f"));
}

fn forged_clear(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    assert_invalid_tokens_refused(context, &dir.http("f"));
}

fn other_rights(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", FORTY));
    dir.put("f", FORTY);
    let for_another_path = context.test_bed.tokens.wlcg("storage.read:/elsewhere");
    bearer(context, &for_another_path, &[], &dir.https("f")).expect_status(403);
    let read_token = context.token(&["read"]);
    bearer(context, &read_token, &["-T", &file], &dir.https("g")).expect_status(403);
    bearer(context, &read_token, &["-X", "DELETE"], &dir.https("f")).expect_status(403);
    assert_eq!(dir.names(), ["f"]);
}

fn create(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", FORTY));
    let token = context.token(&["create"]);
    bearer(context, &token, &["-T", &file], &dir.https("f")).expect_status(201);
    let other = context.write("other", b"other");
    bearer(context, &token, &["-T", &other], &dir.https("f")).expect_status(403);
    bearer(context, &token, &["-X", "DELETE"], &dir.https("f")).expect_status(403);
    assert_eq!(dir.get("f"), FORTY);
}

fn prefix(context: &CaseContext) {
    let dir = context.closed();
    dir.put("path/f", FORTY);
    dir.put("pathology/f", FORTY);
    let token = context.test_bed.tokens.wlcg(&format!("{}/path", context.scope("read")));
    bearer(context, &token, &[], &dir.https("path/f")).expect_status(200).expect_body(FORTY);
    bearer(context, &token, &[], &dir.https("pathology/f")).expect_status(403);
}

fn url(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    let token = context.token(&["read"]);
    context.curl(&[&format!("{}?authz=Bearer%20{token}", dir.https("f"))]).expect_status(200).expect_body(FORTY);
    let signature = token.rsplit('.').next().unwrap();
    assert!(!dir.server().log().contains(signature), "a token is in the log");
}

fn key(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", FORTY));
    let key = dir.server().grant(&["--export", "data", "--write"]).expect("a node of ours");
    bearer(context, &key, &["-T", &file], &dir.https("f")).expect_status(201);
    bearer(context, &key, &[], &dir.https("f")).expect_status(200).expect_body(FORTY);
    assert!(!dir.server().log().contains(&key), "a key is in the log");
}

fn basic(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    let key = dir.server().grant(&["--export", "data"]).expect("a node of ours");
    context.curl(&["-u", &format!("anybody:{key}"), &dir.https("f")]).expect_status(200).expect_body(FORTY);
}

fn read_key(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", FORTY));
    let key = dir.server().grant(&["--export", "data"]).expect("a node of ours");
    bearer(context, &key, &["-T", &file], &dir.https("f")).expect_status(403);
}

fn bad_key(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    let mut key = dir.server().grant(&["--export", "data"]).expect("a node of ours");
    let last = if key.ends_with('2') { '3' } else { '2' };
    key.pop();
    key.push(last);
    bearer(context, &key, &[], &dir.https("f")).expect_status(401);
}

fn certificate(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", FORTY));
    let words = context.identity(&context.test_bed.pki.alice);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let url = dir.https("f");
    words.extend(["-T", &file, &url]);
    context.curl(&words).expect_status(201);
    context.curl(&[&words[..4], &[&url]].concat()).expect_status(200).expect_body(FORTY);
}

fn stranger(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", FORTY));
    let words = context.identity(&context.test_bed.pki.mallory);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let url = dir.https("f");
    words.extend(["-T", &file, &url]);
    context.curl(&words).expect_status(403);
    assert!(dir.names().is_empty());
}

/// A certificate that alice has made for a day, as grids delegate (RFC 3820), and the chain to her own.
fn proxy(context: &CaseContext) -> (String, String) {
    let alice = &context.test_bed.pki.alice;
    let path = |name: &str| context.path(name).display().to_string();
    let (key, request, made) = (path("proxy.key"), path("proxy.csr"), path("proxy.crt"));
    let extension = context.write("proxy.cnf", b"proxyCertInfo=critical,language:id-ppl-inheritAll\n");
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let words =
        ["openssl", "req", "-new", "-nodes", "-subj", "/DC=test/CN=alice/CN=123", "-keyout", &key, "-out", &request];
    context.run(&[&words[..], &curve].concat()).expect_success();
    let (certificate, above) = (alice.certificate.display().to_string(), alice.key.display().to_string());
    let words = ["openssl", "x509", "-req", "-days", "1", "-set_serial", "7", "-in", &request, "-CA", &certificate];
    context.run(&[&words[..], &["-CAkey", &above, "-extfile", &extension, "-out", &made]].concat()).expect_success();
    let chain = [std::fs::read(made).unwrap(), std::fs::read(certificate).unwrap()].concat();
    (context.write("proxy.pem", &chain), key)
}

fn proxied(context: &CaseContext) {
    let (dir, token) = (context.closed(), context.token(&["read"]));
    dir.put("f", FORTY);
    let (chain, key) = proxy(context);
    let bearer = format!("Authorization: Bearer {token}");
    for version in ["--tlsv1.3", "--tlsv1.2"] {
        let most = if version == "--tlsv1.2" { "1.2" } else { "1.3" };
        let words = ["--cert", &chain, "--key", &key, version, "--tls-max", most];
        context.curl(&[&words[..], &["-H", &bearer, &dir.https("f")]].concat()).expect_status(200).expect_body(FORTY);
        context.curl(&[&words[..], &[&dir.https("f")]].concat()).expect_status(200).expect_body(FORTY);
    }
}

fn before_body(context: &CaseContext) {
    let (dir, file) = (context.closed(), context.write("f", &super::pattern(2_000_000)));
    let words = ["-v", "-H", "Expect: 100-continue", "--expect100-timeout", "60", "-T", &file];
    let reply = context.curl(&[&words[..], &[&dir.https("f")]].concat()).expect_status(401);
    assert!(!reply.verbose.contains("100 Continue"), "{}", reply.verbose);
    assert!(dir.names().is_empty());
}
