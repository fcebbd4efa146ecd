//! Access over HTTP: by tokens, macaroons, keys, certificates and programs, and without a credential.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rcgen::DnType;
use serde_json::{Value, json};

use crate::client::{Client, words};
use crate::https::{HttpsClient, IssuerServer, assert_not_written, certificate, file, setup, token};
use crate::node::Node;
use crate::wait::{LONG, until, until_some};

const ISS: &str = "https://issuer.example/";

const POLICY: &str = r#"
audiences = ["https://node.example"]
[[issuer]]
name = "vo"
iss = "https://issuer.example/"
export = "data"
path = "store"
jwks = "keys.json"
[[allow]]
issuer = "vo"
group = "/vo/prod"
export = "data"
path = "prod"
rights = ["read"]
[[allow]]
anyone = true
export = "public"
rights = ["read"]
[[allow]]
dn = "/O=Example/CN=Robot"
export = "data"
rights = ["read"]
[macaroons]
max_validity = "1h"
"#;

fn node(policy: &str) -> Node {
    let setup = setup(policy);
    for below in ["store/a/f", "store/ab/f", "prod/x", "other", "dir/f"] {
        file(&setup.data(), below, b"here");
    }
    setup.start()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The claims of a valid token, some of them changed.
fn claims(changes: Value) -> Value {
    let now = now();
    let mut claims = json!({"iss": ISS, "sub": "robot", "jti": "7", "aud": "https://node.example", "wlcg.ver": "1.0",
        "iat": now - 10, "nbf": now - 10, "exp": now + 600, "scope": "storage.read:/"});
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn signed(changes: Value) -> String {
    token(&json!({"alg": "ES256", "kid": "k1"}), &claims(changes))
}

fn scoped(scope: &str) -> String {
    signed(json!({ "scope": scope }))
}

#[test]
fn a_token_opens_exactly_its_scopes() {
    let node = node(POLICY);
    let group = json!({"scope": "openid", "wlcg.groups": ["/vo/prod"]});
    let both = json!({"scope": "storage.read:/a", "wlcg.groups": ["/vo/prod"]});
    let scitoken = json!({"iss": ISS, "ver": "scitoken:2.0", "aud": "ANY", "exp": now() + 60, "scope": "read:/a"});
    let write = scoped("storage.read:/ storage.modify:/");
    let (read, create) = (scoped("storage.read:/"), scoped("storage.create:/"));
    let (part, stage) = (scoped("storage.read:/a"), scoped("storage.stage:/"));
    let (group, both) = (signed(group), signed(both));
    let scitoken = token(&json!({"alg": "ES256", "kid": "k1"}), &scitoken);
    let table = [
        (&write, "PUT", "/data/store/new", 201),
        (&write, "PUT", "/data/store/new", 204),
        (&write, "GET", "/data/store/new", 200),
        (&write, "PUT", "/data/other", 403),
        (&write, "DELETE", "/data/store/new", 204),
        (&read, "GET", "/data/store/a/f", 200),
        (&read, "HEAD", "/data/store/a/f", 200),
        (&read, "PROPFIND", "/data/store/a/f", 207),
        (&read, "PUT", "/data/store/new", 403),
        (&read, "DELETE", "/data/store/a/f", 403),
        (&create, "PUT", "/data/store/deep/made", 201),
        (&create, "PUT", "/data/store/deep/made", 403),
        (&create, "GET", "/data/store/deep/made", 403),
        (&create, "HEAD", "/data/store/deep/made", 200),
        (&create, "DELETE", "/data/store/deep/made", 403),
        (&part, "GET", "/data/store/a/f", 200),
        (&part, "GET", "/data/store/ab/f", 403),
        (&part, "GET", "/data/other", 403),
        (&stage, "GET", "/data/store/a/f", 403),
        (&group, "GET", "/data/prod/x", 200),
        (&group, "GET", "/data/store/a/f", 403),
        (&both, "GET", "/data/prod/x", 403),
        (&scitoken, "GET", "/data/store/a/f", 200),
        (&scitoken, "GET", "/data/store/ab/f", 403),
        (&read, "GET", "/public/f", 200),
    ];
    for (token, method, target, status) in table {
        let body: &[u8] = if method == "PUT" { b"put" } else { b"" };
        let https_client = HttpsClient::bearer(token).with("Depth", "0");
        let answer = https_client.ask(&node, method, target, body);
        assert_eq!(answer.status, status, "{method} {target}: {answer:?}");
        assert_eq!(answer.challenge().contains("insufficient_scope"), status == 403, "{answer:?}");
        let encoded = token.replace('.', "%2E");
        let in_query = HttpsClient::default().ask(&node, "HEAD", &format!("{target}?authz=Bearer%20{encoded}"), b"");
        assert_ne!(in_query.status, 401, "the query counts as the field does");
    }
    assert_not_written(&node, &[write, read, create, part, stage, group, both, scitoken]);
}

#[test]
fn an_invalid_token_opens_nothing() {
    let node = node(POLICY);
    let good = scoped("storage.read:/");
    // The first letter of the signature: not all bits of the last one count, so that some changes of it are no base64url.
    let (signed_part, signature) = good.rsplit_once('.').unwrap();
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    let changed = format!("{signed_part}.{first}{}", &signature[1..]);
    let header = |alg: &str, kid: &str| token(&json!({"alg": alg, "kid": kid}), &claims(json!({})));
    let table = [
        (signed(json!({"exp": now() - 1})), "expired"),
        (signed(json!({"nbf": now() + 3600})), "clock"),
        (signed(json!({"aud": "https://other.example"})), "https://other.example"),
        (signed(json!({"iss": "https://evil.example/"})), "not trusted"),
        (signed(json!({"iss": "https://issuer.example"})), "not trusted"),
        (signed(json!({"wlcg.ver": "9.9"})), "version"),
        (signed(json!({"scope": "storage.read"})), "no path"),
        (header("ES256", "k2"), "k2"),
        (header("none", "k1"), "not signed"),
        (header("HS256", "k1"), "shared secret"),
        (changed, "changed or forged"),
        ("nonsense".to_owned(), "JSON Web Token"),
    ];
    for (token, word) in &table {
        let answer = HttpsClient::bearer(token).get(&node, "/data/store/a/f");
        let challenge = answer.challenge();
        assert_eq!(answer.status, 401, "{word}: {answer:?}");
        assert!(challenge.contains("error=\"invalid_token\"") && challenge.contains(word), "{word}: {challenge}");
        assert!(answer.body.contains(word) && !answer.body.contains(token.as_str()), "{answer:?}");
        // Public files stay readable with an invalid token; but nothing can be changed with it.
        assert_eq!(HttpsClient::bearer(token).get(&node, "/public/f").status, 200);
        assert_eq!(HttpsClient::bearer(token).ask(&node, "POST", "/public/f", b"").status, 401);
        assert_eq!(HttpsClient::bearer(&good).get(&node, "/data/store/a/f").status, 200);
    }
    assert_not_written(&node, &table.map(|(token, _)| token).into_iter().filter(|t| t.len() > 40).collect::<Vec<_>>());
}

#[test]
fn open_exports_stay_open_beside_closed_ones() {
    let node = node(POLICY);
    let anonymous = HttpsClient::default();
    assert_eq!(anonymous.get(&node, "/public/f").body, "open");
    assert_eq!(anonymous.get(&node, "/nowhere/f").status, 404);
    for target in ["/data/store/a/f", "/data/"] {
        let answer = anonymous.get(&node, target);
        assert_eq!(answer.status, 401, "{target}");
        assert!(answer.challenge().contains("Bearer realm") && !answer.challenge().contains("error="), "{answer:?}");
    }
    let root = anonymous.get(&node, "/");
    assert!(root.body.contains("public") && !root.body.contains("data"), "{root:?}");
    let read_only = anonymous.ask(&node, "PUT", "/public/g", b"x");
    assert!(
        read_only.status == 403 && read_only.body.contains("read-only"),
        "no client may, so no credential is requested"
    );
    let closed = crate::https::setup("").start();
    assert_eq!((anonymous.get(&closed, "/").status, anonymous.get(&closed, "/public/f").status), (401, 401));
    assert_eq!(anonymous.ask(&closed, "OPTIONS", "/", b"").status, 200);
}

#[test]
fn a_certificate_identifies_a_client_by_its_name() {
    let node = node(POLICY);
    let named =
        |names: &[(DnType, &str)]| HttpsClient { certificate: Some(certificate(&[], names)), ..HttpsClient::default() };
    let robot = named(&[(DnType::OrganizationName, "Example"), (DnType::CommonName, "Robot")]);
    assert_eq!(robot.get(&node, "/data/other").status, 200);
    assert_eq!(robot.get(&node, "/public/f").status, 200);
    let denied = robot.ask(&node, "DELETE", "/data/other", b"");
    assert!(denied.status == 403 && denied.body.contains("/O=Example/CN=Robot"), "{denied:?}");
    let other = named(&[(DnType::OrganizationName, "Example"), (DnType::CommonName, "Robot/CN=x")]);
    assert_eq!(
        other.get(&node, "/data/other").status,
        404,
        "a path that the certificate does not open counts as missing"
    );
    // A narrow token limits also a client that has a certificate besides.
    let both =
        HttpsClient { certificate: robot.certificate.clone(), ..HttpsClient::bearer(&scoped("storage.read:/a")) };
    assert_eq!(both.get(&node, "/data/other").status, 403);
}

#[test]
fn macaroons_are_issued_narrowed_and_end_with_their_key() {
    let node = node(POLICY);
    let key = node.grant(&["--export", "data", "--path", "dir", "--write"]);
    let body = br#"{"caveats":["activity:DOWNLOAD,LIST,UPLOAD"],"validity":"PT10M"}"#;
    let typed = |https_client: HttpsClient| https_client.with("Content-Type", "application/macaroon-request");
    let holder = typed(HttpsClient::bearer(&key));
    let made = holder.ask(&node, "POST", "/data/dir", body);
    assert_eq!(made.status, 200, "{made:?}");
    let (text, answer) = (made.json()["macaroon"].as_str().unwrap().to_owned(), made.json());
    assert_eq!(answer["expires_in"], 600);
    let link = answer["uri"]["targetWithMacaroon"].as_str().unwrap();
    assert!(link.starts_with(&format!("https://127.0.0.1:{}/data/dir?authz=", node.port)), "{link}");
    let bearer = HttpsClient::bearer(&text);
    assert_eq!(bearer.get(&node, "/data/dir/f").body, "here");
    assert_eq!(HttpsClient::default().get(&node, &format!("/data/dir/f?authz={text}")).body, "here");
    assert_eq!(bearer.get(&node, "/data/other").status, 403);
    assert_eq!(bearer.ask(&node, "PUT", "/data/dir/new", b"n").status, 201);
    assert_eq!(bearer.ask(&node, "PUT", "/data/dir/f", b"n").status, 403, "UPLOAD replaces nothing");
    let narrow = auth::macaroon::attenuate(&text, "activity:LIST").unwrap();
    assert_eq!(HttpsClient::bearer(&narrow).get(&node, "/data/dir/f").status, 403);
    assert_eq!(HttpsClient::bearer(&narrow).get(&node, "/data/dir/").status, 200);
    let strange = auth::macaroon::attenuate(&text, "ip:192.0.2.1").unwrap();
    assert_eq!(HttpsClient::bearer(&strange).get(&node, "/data/dir/f").status, 401);
    assert_eq!(typed(HttpsClient::default()).ask(&node, "POST", "/data/dir", body).status, 401);
    let again = br#"{"caveats":["activity:DOWNLOAD,DELETE"],"validity":"PT1H"}"#;
    let again = typed(bearer.clone()).ask(&node, "POST", "/data/dir/f", again).json();
    let again = again["macaroon"].as_str().unwrap().to_owned();
    assert_eq!(HttpsClient::bearer(&again).get(&node, "/data/dir/f").body, "here");
    assert_eq!(HttpsClient::bearer(&again).get(&node, "/data/dir/").status, 403, "less than the first, never more");
    assert_eq!(HttpsClient::bearer(&again).ask(&node, "DELETE", "/data/dir/f", b"").status, 403, "less, never more");
    assert_eq!(HttpsClient::bearer(&key).ask(&node, "POST", "/data/dir", body).status, 415);
    assert_eq!(holder.ask(&node, "POST", "/data/dir", &[b' '; 5000]).status, 413);
    assert_eq!(holder.ask(&node, "POST", "/data/dir", b"{}").status, 400);
    let metadata = HttpsClient::default().get(&node, "/.well-known/oauth-authorization-server").json();
    assert!(metadata["token_endpoint"].as_str().unwrap().ends_with("/.oauth2/token"), "{metadata}");
    let form = HttpsClient::bearer(&key).with("Content-Type", "application/x-www-form-urlencoded");
    let scope = b"grant_type=client_credentials&expire_in=60&scope=DOWNLOAD%3A%2Fdata%2Fdir%2Ff";
    let second = form.ask(&node, "POST", "/.oauth2/token", scope).json();
    let second = second["access_token"].as_str().unwrap().to_owned();
    assert_eq!(HttpsClient::bearer(&second).get(&node, "/data/dir/f").status, 200);
    let list = String::from_utf8(node.grant_command(&["list"]).stdout).unwrap();
    node.grant_command(&["revoke", list.split_whitespace().next().unwrap()]);
    let revoked = HttpsClient::bearer(&text).get(&node, "/data/dir/f");
    assert!(revoked.status == 401 && revoked.body.contains("not valid any more"), "{revoked:?}");
    assert_not_written(&node, &[key, text, again, narrow, second]);
    let off = crate::https::setup("").start();
    assert_eq!(typed(HttpsClient::default()).ask(&off, "POST", "/data", body).status, 405);
    assert_eq!(HttpsClient::default().get(&off, "/.well-known/oauth-authorization-server").status, 404);
}

#[test]
fn macaroons_end_with_the_credential_of_their_issue() {
    let node = node(POLICY);
    let made = |https_client: HttpsClient, at: &str| {
        let https_client = https_client.with("Content-Type", "application/macaroon-request");
        let body = br#"{"caveats":["activity:DOWNLOAD"],"validity":"PT10M"}"#;
        let answer = https_client.ask(&node, "POST", at, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        HttpsClient::bearer(answer.json()["macaroon"].as_str().unwrap())
    };
    let names = [(DnType::OrganizationName, "Example"), (DnType::CommonName, "Robot")];
    let by_name =
        made(HttpsClient { certificate: Some(certificate(&[], &names)), ..HttpsClient::default() }, "/data/dir");
    let by_scope = made(HttpsClient::bearer(&scoped("storage.read:/a")), "/data/store/a");
    let status = |https_client: &HttpsClient, at: &str| https_client.get(&node, at).status;
    assert_eq!((status(&by_name, "/data/dir/f"), status(&by_scope, "/data/store/a/f")), (200, 200));
    let file = node.state().join("access.toml");
    fs::write(&file, POLICY.replace("CN=Robot", "CN=Another")).unwrap();
    until("the rule is removed", LONG, || status(&by_name, "/data/dir/f") == 401);
    assert!(by_name.get(&node, "/data/dir/f").body.contains("was made from no longer exist"));
    assert_eq!(status(&by_scope, "/data/store/a/f"), 200, "its issuer is there");
    fs::write(&file, POLICY.replace("https://issuer.example/", "https://another.example/")).unwrap();
    until("the issuer is removed", LONG, || status(&by_scope, "/data/store/a/f") == 401);
    assert_eq!(status(&by_name, "/data/dir/f"), 200, "its rule is back");
}

#[test]
fn an_authorization_program_decides_and_its_timeout_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let program = file(
        dir.path(),
        "ask",
        br#"
read -r question
case "$question" in
  *'"path":"dir/slow"'*) sleep 30 ;;
  *'"path":"prod/x"'*) echo '{"allow":false,"reason":"closed on Sundays"}' ;;
  *'"path":"dir/f","action":"read"'*'"kind":"token","id":"7","issuer":"https://issuer.example/"'*) echo '{"allow":true}' ;;
  *'"policy":"allows"'*) echo '{"allow":true}' ;;
  *) echo '{"allow":false}' ;;
esac
"#,
    );
    let node_with = |when: &str, timeout: &str| {
        let command = program.display();
        let text = format!(
            "{POLICY}[callout]\ncommand = [\"/bin/sh\", \"{command}\"]\ntimeout = \"{timeout}\"\nwhen = \"{when}\"\n"
        );
        node(&text)
    };
    let (undecided, always, hasty) =
        (node_with("undecided", "30s"), node_with("always", "30s"), node_with("undecided", "1s"));
    let (token, group) = (scoped("storage.read:/"), signed(json!({"scope": "", "wlcg.groups": ["/vo/prod"]})));
    let (token, group) = (HttpsClient::bearer(&token), HttpsClient::bearer(&group));
    assert_eq!(token.get(&undecided, "/data/dir/f").status, 200, "no rule, but the program");
    assert_eq!(token.ask(&undecided, "PUT", "/data/dir/f", b"x").status, 403, "not for everything");
    assert_eq!(HttpsClient::default().get(&undecided, "/data/dir/f").status, 401);
    assert_eq!(token.get(&undecided, "/data/other").status, 403);
    let began = Instant::now();
    assert_eq!(token.get(&hasty, "/data/dir/slow").status, 403);
    assert!(began.elapsed() >= Duration::from_secs(1) && hasty.log().contains("call-out"), "{}", hasty.log());
    assert_eq!(group.get(&undecided, "/data/prod/x").status, 200, "a rule decides");
    let refused = group.get(&always, "/data/prod/x");
    assert!(refused.status == 403 && refused.body.contains("closed on Sundays"), "{refused:?}");
    assert_eq!(token.get(&always, "/data/store/a/f").status, 200);
}

#[test]
fn the_cached_keys_of_an_issuer_outlast_its_server() {
    let server = IssuerServer::start();
    let policy = format!(
        "audiences = [\"https://node.example\"]\n[[issuer]]\nname = \"vo\"\niss = \"{}\"\nexport = \"data\"\n",
        server.iss
    );
    let mut node = node(&policy);
    let good = HttpsClient::bearer(&signed(json!({"iss": server.iss})));
    let strange = token(&json!({"alg": "ES256", "kid": "k9"}), &claims(json!({"iss": server.iss})));
    let answer = good.get(&node, "/data/store/a/f");
    assert_eq!(answer.status, 200, "{answer:?} {}", node.log());
    for _ in 0..3 {
        assert_eq!(HttpsClient::bearer(&strange).get(&node, "/data/store/a/f").status, 401);
        assert_eq!(good.get(&node, "/data/store/a/f").status, 200);
    }
    assert_eq!(
        server.key_requests.load(Ordering::Acquire),
        1,
        "unknown key names do not make the node fetch the keys again and again"
    );
    let iss = server.iss.clone();
    drop(server);
    node.restart();
    assert_eq!(good.get(&node, "/data/store/a/f").status, 200);
    // Without the cached keys no token can be checked.
    fs::remove_dir_all(node.state().join("issuers")).unwrap();
    node.restart();
    let answer = good.get(&node, "/data/store/a/f");
    assert!(answer.status == 503 && answer.body.contains(&iss), "{answer:?}");
    assert!(node.log().contains("cannot be fetched"), "{}", node.log());
}

#[test]
fn the_policy_changes_while_the_node_runs() {
    let mut node = node(POLICY);
    let file = node.state().join("access.toml");
    let get = |node: &Node| HttpsClient::default().get(node, "/public/f").status;
    assert_eq!(get(&node), 200);
    fs::write(&file, format!("{POLICY}\n[nonsense]\n")).unwrap();
    until("the error is logged", LONG, || get(&node) == 200 && node.log().contains("cannot be read"));
    fs::write(&file, format!("{POLICY}\n[addresses]\nrefuse = [\"127.0.0.0/8\"]\n")).unwrap();
    until("the address is refused", LONG, || get(&node) == 403);
    let key = node.grant(&["--export", "data"]);
    Client::with_key(&key).run(words!["ls", node.at("data")]).refused(4, &["127.0.0.1", "addresses"]);
    fs::write(&file, POLICY).unwrap();
    until("the address is served", LONG, || get(&node) == 200);
    let client = Client::with_key(&key);
    client.run(words!["ls", node.at("data")]).expect(0);
    // Requests of anonymous clients are not among the decisions about identified ones.
    let (nobody, people) = ("audit-nobody.jsonl", "audit.jsonl");
    for (name, by, action, outcome) in [
        (nobody, "https", "GET", "allowed"),
        (nobody, "https", "GET", "denied"),
        (nobody, "native", "login", "denied"),
        (people, "native", "login", "allowed"),
        (people, "native", "ask", "allowed"),
    ] {
        let is_it = |line: &Value| line["by"] == by && line["action"] == action && line["outcome"] == outcome;
        until(&format!("{name} has {by} {action} {outcome}"), LONG, || audit_log(&node, name).iter().any(is_it));
    }
    assert!(audit_log(&node, people).iter().all(|line| line["who"] != "nobody" && line["outcome"] == "allowed"));
    assert_not_written(&node, &[key]);
    node.kill();
    fs::write(&file, "[[allow]]\nanyone = 7\n").unwrap();
    let refused = client.run(words!["serve", "--listen", "127.0.0.1:0", "--state", node.state()]);
    let error = &refused.err;
    assert!(refused.code != 0 && error.contains("access.toml") && error.contains("line 2"), "{error}");
}

/// The lines of the audit log.
fn audit_log(node: &Node, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(node.state().join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_audit_log_names_both_ends_and_no_secret() {
    let node = node(POLICY);
    let https_client = HttpsClient::bearer(&scoped("storage.read:/ storage.modify:/"));
    let long = "x".repeat(3000);
    let from = format!("https://me:hidden@127.0.0.1:9/f?authz=hidden&x={long}");
    assert!(https_client.with("Source", &from).ask(&node, "COPY", "/data/store/new", b"").status >= 400);
    let https_client = HttpsClient::bearer(&scoped("storage.read:/ storage.modify:/"));
    let to = format!("https://127.0.0.1:{}/data/store/a/g", node.port);
    https_client.with("Destination", &to).ask(&node, "MOVE", "/data/store/a/f", b"");
    let other = |action: &str| {
        let line = || audit_log(&node, "audit.jsonl").into_iter().find(|line| line["action"] == action);
        // Written when the answer has been sent.
        until_some(action, LONG, line)["other"].as_str().unwrap().to_owned()
    };
    assert_eq!(other("MOVE"), to);
    let copied = other("COPY");
    assert!(
        copied.starts_with("https://") && copied.contains("127.0.0.1:9/f?authz=") && copied.len() < 600,
        "{copied}"
    );
    assert_not_written(&node, &["hidden".into()]);
}

#[test]
fn a_browser_needs_only_a_link() {
    let node = node("");
    let made = node.grant_command(&["--export", "data", "--path", "dir"]);
    let output = String::from_utf8(made.stderr).unwrap();
    let link = output.split_whitespace().find(|word| word.starts_with("https://")).unwrap().to_owned();
    let target = link.strip_prefix(&format!("https://127.0.0.1:{}", node.port)).unwrap();
    let browser = HttpsClient::default().with("Accept", "text/html");
    let sent_on = browser.get(&node, target);
    assert_eq!(sent_on.status, 307, "{sent_on:?}");
    // From here on a cookie replaces the key, which is in no URL.
    let entered = browser.get(&node, sent_on.headers.get("location").unwrap());
    assert_eq!((entered.status, entered.headers.get("location")), (303, Some("/data/dir/")), "{entered:?}");
    let cookie = entered.headers.get("set-cookie").unwrap().split(';').next().unwrap();
    let browser = browser.with("Cookie", cookie);
    let page = browser.get(&node, "/data/dir/");
    assert_eq!((page.status, page.headers.get("referrer-policy")), (200, Some("same-origin")), "{page:?}");
    let href = page.body.split("href=\"./").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert_eq!(browser.get(&node, &format!("/data/dir/{href}")).body, "here");
    assert_eq!(browser.get(&node, &target.replace("/data/dir", "/data/other")).status, 403);
    let key = target.split('=').nth(1).unwrap().to_owned();
    assert_not_written(&node, &[key]);
}

#[test]
fn a_revoked_right_ends_at_once() {
    let node = node(POLICY);
    let file = node.state().join("access.toml");
    for _ in 0..3 {
        fs::write(&file, POLICY).unwrap();
        until("it is given", LONG, || HttpsClient::default().get(&node, "/public/f").status == 200);
        let without = POLICY.replace("anyone = true\n", "dn = \"/O=Example/CN=Nobody\"\n");
        fs::write(&file, without).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(HttpsClient::default().get(&node, "/public/f").status, 401, "{}", node.log());
    }
}

#[test]
fn guessing_credentials_is_slowed_down() {
    let node = node(POLICY);
    let began = Instant::now();
    for _ in 0..8 {
        assert_eq!(
            HttpsClient::bearer("a.b.c").get(&node, "/public/f").body,
            "open",
            "a public path needs no valid token"
        );
        assert_eq!(HttpsClient::bearer("a.b.c").get(&node, "/data/other").status, 401);
    }
    // The sixth waits 0.1 s, the seventh 0.2 s, the eighth 0.4 s.
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
}
