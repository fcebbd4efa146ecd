//! curl requests macaroons and uses them.

use serde_json::Value;

use super::FORTY;
use crate::case::Case;
use crate::clients::Reply;
use crate::context::CaseContext;

const CURL: &str = "curl";
const KIND: &str = "Content-Type: application/macaroon-request";

pub const CASES: &[Case] = &[
    Case::new(CURL, "macaroon", "POST for a macaroon to read, GET, PUT with it", "200, 200, 403", macaroon)
        .stock("is not set up for them"),
    Case::new(CURL, "macaroon-upload", "POST for one to upload, PUT with it", "201", upload)
        .stock("is not set up for them"),
    Case::new(CURL, "macaroon-path", "POST for one of a file, GET of another", "403", path)
        .stock("is not set up for them"),
    Case::new(
        CURL,
        "macaroon-attenuated",
        "POST with a macaroon for another one with fewer rights",
        "200; more than it had: 403",
        fewer_rights,
    )
    .stock("is not set up for them"),
    Case::new(CURL, "macaroon-anonymous", "POST without a credential", "401", anonymous)
        .stock("is not set up for them"),
    Case::new(CURL, "macaroon-broken", "POST with another content type; without a validity", "415 or 400; 400", broken)
        .stock("is not set up for them"),
    Case::new(CURL, "macaroon-oauth", "POST to the token endpoint that the node names", "200, access_token", oauth)
        .stock("is not set up for them"),
    Case::new(CURL, "macaroon-forged", "GET with a macaroon whose last letter is another", "401", forged)
        .stock("is not set up for them"),
];

/// Requests a macaroon with some credential.
fn ask(context: &CaseContext, credential: &str, body: &str, url: &str) -> Reply {
    let header = format!("Authorization: Bearer {credential}");
    context.curl(&["-X", "POST", "-H", &header, "-H", KIND, "-d", body, url])
}

fn request_macaroon(context: &CaseContext, credential: &str, activities: &str, url: &str) -> String {
    let body = format!("{{\"caveats\": [\"activity:{activities}\"], \"validity\": \"PT10M\"}}");
    let reply = ask(context, credential, &body, url).expect_status(200);
    let value: Value = serde_json::from_str(&reply.text()).unwrap_or_else(|e| panic!("{e}: {}", reply.text()));
    value["macaroon"].as_str().expect("a macaroon").to_owned()
}

fn get(context: &CaseContext, macaroon: &str, url: &str) -> Reply {
    context.curl(&["-H", &format!("Authorization: Bearer {macaroon}"), url])
}

fn put(context: &CaseContext, macaroon: &str, url: &str) -> Reply {
    let file = context.write("up", FORTY);
    context.curl(&["-H", &format!("Authorization: Bearer {macaroon}"), "-T", &file, url])
}

fn holder(context: &CaseContext) -> String {
    context.token(&["read", "modify"])
}

fn macaroon(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    let macaroon = request_macaroon(context, &holder(context), "DOWNLOAD,LIST", &dir.https(""));
    get(context, &macaroon, &dir.https("f")).expect_status(200).expect_body(FORTY);
    put(context, &macaroon, &dir.https("g")).expect_status(403);
    context.curl(&[&format!("{}?authz=Bearer%20{macaroon}", dir.https("f"))]).expect_status(200).expect_body(FORTY);
}

fn upload(context: &CaseContext) {
    let dir = context.closed();
    let macaroon = request_macaroon(context, &holder(context), "UPLOAD,LIST", &dir.https("g"));
    put(context, &macaroon, &dir.https("g")).expect_status(201);
    get(context, &macaroon, &dir.https("g")).expect_status(403);
    assert_eq!(dir.get("g"), FORTY);
}

fn path(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    dir.put("g", FORTY);
    let macaroon = request_macaroon(context, &holder(context), "DOWNLOAD", &dir.https("f"));
    get(context, &macaroon, &dir.https("f")).expect_status(200);
    get(context, &macaroon, &dir.https("g")).expect_status(403);
}

fn fewer_rights(context: &CaseContext) {
    let dir = context.closed();
    dir.put("d/f", FORTY);
    dir.put("f", FORTY);
    let wide = request_macaroon(context, &holder(context), "DOWNLOAD,UPLOAD,LIST", &dir.https(""));
    let narrow = request_macaroon(context, &wide, "DOWNLOAD", &dir.https("d/"));
    get(context, &narrow, &dir.https("d/f")).expect_status(200).expect_body(FORTY);
    get(context, &narrow, &dir.https("f")).expect_status(403);
    // A request for more than the credential's rights gives no more.
    let reply =
        ask(context, &narrow, "{\"caveats\": [\"activity:UPLOAD\"], \"validity\": \"PT10M\"}", &dir.https("d/"));
    if reply.status == 200 {
        let value: Value = serde_json::from_str(&reply.text()).unwrap();
        put(context, value["macaroon"].as_str().unwrap(), &dir.https("d/new")).expect_status(403);
    }
    assert!(!dir.has("d/new"));
}

fn anonymous(context: &CaseContext) {
    let dir = context.closed();
    let body = "{\"caveats\": [\"activity:DOWNLOAD\"], \"validity\": \"PT10M\"}";
    context
        .curl(&["-X", "POST", "-H", KIND, "-d", body, &dir.https("")])
        .expect_status(401)
        .expect_without("\"macaroon\"");
}

fn broken(context: &CaseContext) {
    let dir = context.closed();
    let (header, url) = (format!("Authorization: Bearer {}", holder(context)), dir.https(""));
    let body = "{\"validity\": \"PT10M\"}";
    let words = ["-X", "POST", "-H", &header, "-H", "Content-Type: text/plain", "-d", body, &url];
    context.curl(&words).expect_one_of(&[400, 415]);
    for body in ["{}", "rubbish", "{\"validity\": \"for ever\"}", "{\"caveats\": [\"path:/\"], \"validity\": \"PT1M\"}"]
    {
        ask(context, &holder(context), body, &url).expect_status(400);
    }
}

fn oauth(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    let root = dir.https("").replace(&dir.target(""), "");
    let reply = context.curl(&[&format!("{root}/.well-known/oauth-authorization-server")]).expect_status(200);
    let metadata: Value = serde_json::from_str(&reply.text()).unwrap();
    let endpoint = metadata["token_endpoint"].as_str().expect("a token endpoint");
    let header = format!("Authorization: Bearer {}", holder(context));
    let form = format!("grant_type=client_credentials&expire_in=600&scope=DOWNLOAD:{}", dir.target("f"));
    let reply = context.curl(&["-X", "POST", "-H", &header, "-d", &form, endpoint]).expect_status(200);
    let granted: Value = serde_json::from_str(&reply.text()).unwrap();
    get(context, granted["access_token"].as_str().expect("a token"), &dir.https("f"))
        .expect_status(200)
        .expect_body(FORTY);
}

fn forged(context: &CaseContext) {
    let dir = context.closed();
    dir.put("f", FORTY);
    let mut macaroon = request_macaroon(context, &holder(context), "DOWNLOAD", &dir.https(""));
    // Some bits of the last letter may be unused; all bits of the one before are used.
    let last = macaroon.pop().unwrap();
    let other = if macaroon.pop() == Some('A') { 'B' } else { 'A' };
    macaroon.extend([other, last]);
    get(context, &macaroon, &dir.https("f")).expect_status(401);
}
