//! curl asks for macaroons and uses them.

use serde_json::Value;

use super::FORTY;
use crate::case::Case;
use crate::clients::Reply;
use crate::scene::CaseContext;

const CURL: &str = "curl";
const KIND: &str = "Content-Type: application/macaroon-request";

pub const CASES: &[Case] = &[
    Case::new(CURL, "macaroon", "POST for a macaroon to read, GET, PUT with it", "200, 200, 403", macaroon)
        .stock("is not set up for them"),
    Case::new(CURL, "macaroon-upload", "POST for one to upload, PUT with it", "201", upload)
        .stock("is not set up for them"),
    Case::new(CURL, "macaroon-path", "POST for one of a file, GET of another", "403", path)
        .stock("is not set up for them"),
    Case::new(CURL, "macaroon-attenuated", "POST with a macaroon for one of less", "200; more than it had: 403", less)
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

/// Asks for a macaroon with some credential.
fn ask(scene: &CaseContext, credential: &str, body: &str, url: &str) -> Reply {
    let header = format!("Authorization: Bearer {credential}");
    scene.curl(&["-X", "POST", "-H", &header, "-H", KIND, "-d", body, url])
}

fn one(scene: &CaseContext, credential: &str, activities: &str, url: &str) -> String {
    let body = format!("{{\"caveats\": [\"activity:{activities}\"], \"validity\": \"PT10M\"}}");
    let reply = ask(scene, credential, &body, url).is(200);
    let value: Value = serde_json::from_str(&reply.text()).unwrap_or_else(|e| panic!("{e}: {}", reply.text()));
    value["macaroon"].as_str().expect("a macaroon").to_owned()
}

fn get(scene: &CaseContext, macaroon: &str, url: &str) -> Reply {
    scene.curl(&["-H", &format!("Authorization: Bearer {macaroon}"), url])
}

fn put(scene: &CaseContext, macaroon: &str, url: &str) -> Reply {
    let file = scene.write("up", FORTY);
    scene.curl(&["-H", &format!("Authorization: Bearer {macaroon}"), "-T", &file, url])
}

fn holder(scene: &CaseContext) -> String {
    scene.token(&["read", "modify"])
}

fn macaroon(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    let macaroon = one(scene, &holder(scene), "DOWNLOAD,LIST", &room.https(""));
    get(scene, &macaroon, &room.https("f")).is(200).of(FORTY);
    put(scene, &macaroon, &room.https("g")).is(403);
    scene.curl(&[&format!("{}?authz=Bearer%20{macaroon}", room.https("f"))]).is(200).of(FORTY);
}

fn upload(scene: &CaseContext) {
    let room = scene.closed();
    let macaroon = one(scene, &holder(scene), "UPLOAD,LIST", &room.https("g"));
    put(scene, &macaroon, &room.https("g")).is(201);
    get(scene, &macaroon, &room.https("g")).is(403);
    assert_eq!(room.get("g"), FORTY);
}

fn path(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    room.put("g", FORTY);
    let macaroon = one(scene, &holder(scene), "DOWNLOAD", &room.https("f"));
    get(scene, &macaroon, &room.https("f")).is(200);
    get(scene, &macaroon, &room.https("g")).is(403);
}

fn less(scene: &CaseContext) {
    let room = scene.closed();
    room.put("d/f", FORTY);
    room.put("f", FORTY);
    let wide = one(scene, &holder(scene), "DOWNLOAD,UPLOAD,LIST", &room.https(""));
    let narrow = one(scene, &wide, "DOWNLOAD", &room.https("d/"));
    get(scene, &narrow, &room.https("d/f")).is(200).of(FORTY);
    get(scene, &narrow, &room.https("f")).is(403);
    // Asking for more than one has gives no more.
    let reply = ask(scene, &narrow, "{\"caveats\": [\"activity:UPLOAD\"], \"validity\": \"PT10M\"}", &room.https("d/"));
    if reply.status == 200 {
        let value: Value = serde_json::from_str(&reply.text()).unwrap();
        put(scene, value["macaroon"].as_str().unwrap(), &room.https("d/new")).is(403);
    }
    assert!(!room.has("d/new"));
}

fn anonymous(scene: &CaseContext) {
    let room = scene.closed();
    let body = "{\"caveats\": [\"activity:DOWNLOAD\"], \"validity\": \"PT10M\"}";
    scene.curl(&["-X", "POST", "-H", KIND, "-d", body, &room.https("")]).is(401).keeps_silent_of("\"macaroon\"");
}

fn broken(scene: &CaseContext) {
    let room = scene.closed();
    let (header, url) = (format!("Authorization: Bearer {}", holder(scene)), room.https(""));
    let body = "{\"validity\": \"PT10M\"}";
    let words = ["-X", "POST", "-H", &header, "-H", "Content-Type: text/plain", "-d", body, &url];
    scene.curl(&words).answers_one_of(&[400, 415]);
    for body in ["{}", "rubbish", "{\"validity\": \"for ever\"}", "{\"caveats\": [\"path:/\"], \"validity\": \"PT1M\"}"]
    {
        ask(scene, &holder(scene), body, &url).is(400);
    }
}

fn oauth(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    let root = room.https("").replace(&room.target(""), "");
    let told = scene.curl(&[&format!("{root}/.well-known/oauth-authorization-server")]).is(200);
    let told: Value = serde_json::from_str(&told.text()).unwrap();
    let endpoint = told["token_endpoint"].as_str().expect("a token endpoint");
    let header = format!("Authorization: Bearer {}", holder(scene));
    let form = format!("grant_type=client_credentials&expire_in=600&scope=DOWNLOAD:{}", room.target("f"));
    let reply = scene.curl(&["-X", "POST", "-H", &header, "-d", &form, endpoint]).is(200);
    let told: Value = serde_json::from_str(&reply.text()).unwrap();
    get(scene, told["access_token"].as_str().expect("a token"), &room.https("f")).is(200).of(FORTY);
}

fn forged(scene: &CaseContext) {
    let room = scene.closed();
    room.put("f", FORTY);
    let mut macaroon = one(scene, &holder(scene), "DOWNLOAD", &room.https(""));
    // The last letter carries bits that may mean nothing: the one before it does not.
    let last = macaroon.pop().unwrap();
    let other = if macaroon.pop() == Some('A') { 'B' } else { 'A' };
    macaroon.extend([other, last]);
    get(scene, &macaroon, &room.https("f")).is(401);
}
