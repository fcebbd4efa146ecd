//! curl authenticates by keys, tokens and certificates; and the answers where that is not enough.

use serde_json::json;

use super::FORTY;
use crate::case::Case;
use crate::clients::Reply;
use crate::scene::CaseContext;
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
    Case::new(CURL, "auth-less", "GET with a good token for another path; PUT with one to read", "403", less),
    Case::new(CURL, "auth-create", "PUT with `storage.create`: new, then over it; DELETE", "201, 403, 403", create)
        .stock("200 for the first"),
    Case::new(CURL, "auth-prefix", "GET of `/pathology` with a token for `/path`", "403", prefix)
        .stock("200: compares letters, not components"),
    Case::new(CURL, "auth-url", "GET with `?authz=Bearer%20TOKEN`", "200, and no token in the log", url),
    Case::new(CURL, "auth-key", "GET and PUT with an access key as bearer", "200, 201", key).stock("has no keys"),
    Case::new(CURL, "auth-basic", "GET with an access key as the password of Basic", "200", basic).stock("has no keys"),
    Case::new(CURL, "auth-key-less", "PUT with a key to read", "403", key_less).stock("has no keys"),
    Case::new(CURL, "auth-bad-key", "GET with a key that was never given", "401", bad_key).stock("has no keys"),
    Case::new(
        CURL,
        "auth-certificate",
        "GET and PUT with a certificate that the policy knows",
        "200, 201",
        certificate,
    )
    .stock("asks for tokens only"),
    Case::new(CURL, "auth-stranger", "PUT with a certificate that it does not know", "403", stranger),
    Case::new(CURL, "proxy", "GET with a grid proxy: beside a token, and alone", "200", proxied),
    Case::new(CURL, "auth-before-body", "PUT with `Expect` and no credential", "401 and no 100", before_body)
        .stock("403"),
];

/// Asks for a path of the closed server with a bearer.
fn bearer(scene: &CaseContext, token: &str, more: &[&str], url: &str) -> Reply {
    let header = format!("Authorization: Bearer {token}");
    scene.curl(&[&["-H", &header], more, &[url]].concat())
}

fn none(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    scene.curl(&[&room.https("f")]).is(401).has("www-authenticate", "Bearer").keeps_silent_of("0123456789");
    scene.curl(&["-X", "PROPFIND", "-H", "Depth: 0", &room.https("f")]).is(401);
}

fn token(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", FORTY));
    let token = scene.token(&["read", "modify"]);
    bearer(scene, &token, &["-T", &file], &room.https("f")).is(201);
    bearer(scene, &token, &[], &room.https("f")).is(200).of(FORTY);
}

fn token_rs256(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    let tokens = &scene.world.tokens;
    let token = tokens.sign(&tokens.claims(&scene.scope("read")), Signature::Rs256);
    bearer(scene, &token, &[], &room.https("f")).is(200).of(FORTY);
}

fn scitoken(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    let scope = scene.scope("read").replace("storage.", "");
    let token = scene.world.tokens.with(&scope, json!({"wlcg.ver": null, "ver": "scitoken:2.0"}));
    bearer(scene, &token, &[], &room.https("f")).is(200).of(FORTY);
}

/// Invalid tokens.
fn bad(scene: &CaseContext) -> Vec<(&'static str, String)> {
    let (tokens, scope) = (&scene.world.tokens, scene.scope("read"));
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

fn refused(scene: &CaseContext, url: &str) {
    for (what, token) in bad(scene) {
        let reply = bearer(scene, &token, &[], url);
        assert_eq!(reply.status, 401, "{what}: {reply:?}");
        reply.has("www-authenticate", "Bearer").keeps_silent_of("0123456789");
    }
}

fn bad_token(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    refused(scene, &room.https("f"));
}

fn forged_clear(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    refused(scene, &room.http("f"));
}

fn less(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", FORTY));
    room.put("f", FORTY);
    let elsewhere = scene.world.tokens.wlcg("storage.read:/elsewhere");
    bearer(scene, &elsewhere, &[], &room.https("f")).is(403);
    let reads = scene.token(&["read"]);
    bearer(scene, &reads, &["-T", &file], &room.https("g")).is(403);
    bearer(scene, &reads, &["-X", "DELETE"], &room.https("f")).is(403);
    assert_eq!(room.names(), ["f"]);
}

fn create(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", FORTY));
    let token = scene.token(&["create"]);
    bearer(scene, &token, &["-T", &file], &room.https("f")).is(201);
    let other = scene.write("other", b"other");
    bearer(scene, &token, &["-T", &other], &room.https("f")).is(403);
    bearer(scene, &token, &["-X", "DELETE"], &room.https("f")).is(403);
    assert_eq!(room.get("f"), FORTY);
}

fn prefix(scene: &CaseContext) {
    let room = scene.closed();
    room.put("path/f", FORTY);
    room.put("pathology/f", FORTY);
    let token = scene.world.tokens.wlcg(&format!("{}/path", scene.scope("read")));
    bearer(scene, &token, &[], &room.https("path/f")).is(200).of(FORTY);
    bearer(scene, &token, &[], &room.https("pathology/f")).is(403);
}

fn url(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    let token = scene.token(&["read"]);
    scene.curl(&[&format!("{}?authz=Bearer%20{token}", room.https("f"))]).is(200).of(FORTY);
    let signature = token.rsplit('.').next().unwrap();
    assert!(!room.server().log().contains(signature), "a token is in the log");
}

fn key(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", FORTY));
    let key = room.server().grant(&["--export", "data", "--write"]).expect("a node of ours");
    bearer(scene, &key, &["-T", &file], &room.https("f")).is(201);
    bearer(scene, &key, &[], &room.https("f")).is(200).of(FORTY);
    assert!(!room.server().log().contains(&key), "a key is in the log");
}

fn basic(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    let key = room.server().grant(&["--export", "data"]).expect("a node of ours");
    scene.curl(&["-u", &format!("anybody:{key}"), &room.https("f")]).is(200).of(FORTY);
}

fn key_less(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", FORTY));
    let key = room.server().grant(&["--export", "data"]).expect("a node of ours");
    bearer(scene, &key, &["-T", &file], &room.https("f")).is(403);
}

fn bad_key(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    let mut key = room.server().grant(&["--export", "data"]).expect("a node of ours");
    let last = if key.ends_with('2') { '3' } else { '2' };
    key.pop();
    key.push(last);
    bearer(scene, &key, &[], &room.https("f")).is(401);
}

fn certificate(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", FORTY));
    let words = scene.identity(&scene.world.pki.alice);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let url = room.https("f");
    words.extend(["-T", &file, &url]);
    scene.curl(&words).is(201);
    scene.curl(&[&words[..4], &[&url]].concat()).is(200).of(FORTY);
}

fn stranger(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", FORTY));
    let words = scene.identity(&scene.world.pki.mallory);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let url = room.https("f");
    words.extend(["-T", &file, &url]);
    scene.curl(&words).is(403);
    assert!(room.names().is_empty());
}

/// A certificate that alice has made for a day, as grids delegate (RFC 3820), and the chain to her own.
fn proxy(scene: &CaseContext) -> (String, String) {
    let alice = &scene.world.pki.alice;
    let path = |name: &str| scene.path(name).display().to_string();
    let (key, request, made) = (path("proxy.key"), path("proxy.csr"), path("proxy.crt"));
    let extension = scene.write("proxy.cnf", b"proxyCertInfo=critical,language:id-ppl-inheritAll\n");
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let words =
        ["openssl", "req", "-new", "-nodes", "-subj", "/DC=test/CN=alice/CN=123", "-keyout", &key, "-out", &request];
    scene.run(&[&words[..], &curve].concat()).well();
    let (certificate, above) = (alice.certificate.display().to_string(), alice.key.display().to_string());
    let words = ["openssl", "x509", "-req", "-days", "1", "-set_serial", "7", "-in", &request, "-CA", &certificate];
    scene.run(&[&words[..], &["-CAkey", &above, "-extfile", &extension, "-out", &made]].concat()).well();
    let chain = [std::fs::read(made).unwrap(), std::fs::read(certificate).unwrap()].concat();
    (scene.write("proxy.pem", &chain), key)
}

fn proxied(scene: &CaseContext) {
    let (room, token) = (scene.closed(), scene.token(&["read"]));
    room.put("f", FORTY);
    let (chain, key) = proxy(scene);
    let bearer = format!("Authorization: Bearer {token}");
    for version in ["--tlsv1.3", "--tlsv1.2"] {
        let most = if version == "--tlsv1.2" { "1.2" } else { "1.3" };
        let words = ["--cert", &chain, "--key", &key, version, "--tls-max", most];
        scene.curl(&[&words[..], &["-H", &bearer, &room.https("f")]].concat()).is(200).of(FORTY);
        scene.curl(&[&words[..], &[&room.https("f")]].concat()).is(200).of(FORTY);
    }
}

fn before_body(scene: &CaseContext) {
    let (room, file) = (scene.closed(), scene.write("f", &super::pattern(2_000_000)));
    let words = ["-v", "-H", "Expect: 100-continue", "--expect100-timeout", "60", "-T", &file];
    let reply = scene.curl(&[&words[..], &[&room.https("f")]].concat()).is(401);
    assert!(!reply.verbose.contains("100 Continue"), "{}", reply.verbose);
    assert!(room.names().is_empty());
}
