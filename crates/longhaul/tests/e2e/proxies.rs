//! Certificates, proxies and VOMS attributes at a hub; delegation; and delegated proxies towards storage.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::grid::{ANN, Answer, BOB, Grid, GridClient, is_installed};
use crate::hub::Hub;
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::wait::{LONG, until_some};

fn hub(grid: &Grid) -> Hub {
    Hub::start(&["--client-ca", grid.argument("ca.pem"), "--vomsdir", grid.argument("vomsdir"), "--cacert", {
        fs::write(grid.path("servers.pem"), crate::https::authority()).unwrap();
        grid.argument("servers.pem")
    }])
}

fn client_with<'a>(grid: &'a Grid, hub: &Hub, certificate: &str) -> GridClient<'a> {
    let certificate = (!certificate.is_empty()).then(|| grid.path(certificate));
    GridClient { url: hub.url.clone(), certificate, grid }
}

#[test]
fn a_hub_identifies_people_by_certificates_and_proxies() {
    if !is_installed("a_hub_identifies_people_by_certificates_and_proxies", "openssl") {
        return;
    }
    let grid = Grid::new();
    grid.proxy("proxy", "ann", ANN, 1);
    grid.proxy("over", "ann", ANN, 0);
    let hub = hub(&grid);
    let client_by = |certificate: &str| client_with(&grid, &hub, certificate);

    let who = client_by("ann.all").get("/whoami").json();
    assert_eq!((&who["user_dn"], &who["dn"], &who["method"]), (&json!(ANN), &json!([ANN]), &json!("certificate")));
    let proxied = client_by("proxy.all").get("/whoami").json();
    assert_eq!((&proxied["user_dn"], &proxied["delegation_id"]), (&json!(ANN), &who["delegation_id"]));
    assert_eq!((&proxied["voms_cred"], &proxied["limited_proxy"]), (&json!([]), &json!(false)));
    let shown = client_by("proxy.all").get("/whoami/certificate").1;
    assert_eq!(shown, fs::read_to_string(grid.path("proxy.chain")).unwrap());

    // An invalid proxy is refused with a sentence, and not treated as anonymous.
    std::thread::sleep(Duration::from_secs(1));
    let status_and_message =
        |answer: Answer| (answer.0, answer.json()["message"].as_str().unwrap_or_default().to_owned());
    let (status, text) = status_and_message(client_by("over.all").get("/whoami"));
    assert!(
        status == 401 && text.starts_with(&format!("the proxy certificate {ANN}/CN=1 expired at")),
        "{status} {text}"
    );
    let other = Grid::new();
    let stranger = GridClient { url: hub.url.clone(), certificate: Some(other.path("ann.all")), grid: &other };
    let (status, text) = status_and_message(stranger.get("/whoami"));
    assert!(status == 401 && text.starts_with("no authority that is trusted here vouches"), "{status} {text}");
    assert_eq!(client_by("").get("/whoami").0, 403, "and a client without a proxy is anonymous");
}

#[test]
fn attributes_of_voms_servers_make_members_of_a_community() {
    if !is_installed("attributes_of_voms_servers_make_members_of_a_community", "voms-proxy-fake") {
        return;
    }
    let grid = Grid::new();
    grid.voms_proxy("voms", &["/astro.example/Role=production", "/astro.example"]);
    grid.voms_proxy("foreign", &["/other"]);
    let hub = hub(&grid);
    let who = |certificate: &str| client_with(&grid, &hub, certificate).get("/whoami").json();
    let before = who("voms.all");
    assert_eq!(before["voms_cred"], json!(["/astro.example/Role=production", "/astro.example"]));
    assert_eq!(before["vos"], json!(["default", "astro.example"]), "no community claims it");

    hub.member("admin", "root", "").run(&["hub", "community", "add", "astro", "--vo", "astro.example"]).expect(0);
    let after = who("voms.all");
    assert_eq!(
        (&after["vos"], &after["delegation_id"]),
        (&json!(["astro", "astro.example"]), &before["delegation_id"])
    );
    let foreign = who("foreign.all");
    assert_eq!((&foreign["vos"], &foreign["voms_cred"]), (&json!(["default"]), &json!([])));
    assert!(foreign["voms_refused"][0].as_str().unwrap().contains("attests /other, which is not its own"));
}

/// A submission of one file, in a file.
fn submission(grid: &Grid, source: &str, target: &str) -> PathBuf {
    let document = json!({"files": [{"sources": [source], "destinations": [target]}], "params": {}});
    fs::write(grid.path("job.json"), document.to_string()).unwrap();
    grid.path("job.json")
}

/// Delegates a proxy of Ann's, by her own proxy; returns the answer.
fn delegate(grid: &Grid, ann: &GridClient<'_>, days: u32) -> Answer {
    let id = ann.get("/whoami").json()["delegation_id"].as_str().unwrap().to_owned();
    let request = ann.get(&format!("/delegation/{id}/request"));
    assert_eq!(request.0, 200, "{}", request.1);
    grid.delegate("delegated", &request.1, "proxy", &["ann"], &format!("{ANN}/CN=1/CN=2"), days);
    ann.ask("PUT", &format!("/delegation/{id}/credential"), Some(&grid.path("delegated.chain")))
}

#[test]
fn a_job_by_certificate_takes_a_delegated_proxy() {
    if !is_installed("a_job_by_certificate_takes_a_delegated_proxy", "openssl") {
        return;
    }
    let grid = Grid::new();
    grid.proxy("proxy", "ann", ANN, 1);
    let hub = hub(&grid);
    let (ann, bob) = (client_with(&grid, &hub, "proxy.all"), client_with(&grid, &hub, "bob.all"));
    let id = ann.get("/whoami").json()["delegation_id"].as_str().unwrap().to_owned();
    let path = |below: &str| format!("/delegation/{id}{below}");
    let job = submission(&grid, "davs://a.example/1", "davs://b.example/1");

    assert_eq!((ann.get(&path("")).json(), bob.get(&path("")).0), (Value::Null, 403));
    let refused = ann.ask("POST", "/jobs", Some(&job));
    assert!(refused.0 == 419 && refused.1.contains("no valid proxy of"), "{} {}", refused.0, refused.1);
    let unasked = ann.ask("PUT", &path("/credential"), Some(&grid.path("proxy.chain")));
    assert!(unasked.0 == 400 && unasked.1.contains("GET the request first"), "{}", unasked.1);

    let request = ann.get(&path("/request"));
    assert!(request.1.starts_with("-----BEGIN CERTIFICATE REQUEST-----"), "{}", request.1);
    assert_eq!(request.1, ann.get(&path("/request")).1, "two requests get one key to sign");
    let wrong = ann.ask("PUT", &path("/credential"), Some(&grid.path("proxy.chain")));
    assert!(wrong.0 == 400 && wrong.1.contains("not for the key of the request"), "{}", wrong.1);
    grid.delegate("other", &request.1, "bob", &[], &format!("{BOB}/CN=2"), 1);
    let others = ann.ask("PUT", &path("/credential"), Some(&grid.path("other.chain")));
    assert!(others.0 == 403 && others.1.contains(&format!("the proxy belongs to {BOB}")), "{}", others.1);
    let rubbish = ann.ask("PUT", &path("/credential"), Some(&job));
    assert_eq!(rubbish.0, 400, "{}", rubbish.1);
    fs::write(grid.path("long"), vec![b'x'; (256 << 10) + 1]).unwrap();
    assert_eq!(ann.ask("PUT", &path("/credential"), Some(&grid.path("long"))).0, 413);
    let over = delegate(&grid, &ann, 0);
    assert!(over.0 == 201 || over.0 == 400 && over.1.contains("expired at"), "{}", over.1);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(ann.get(&path("")).json(), Value::Null, "the proxy has expired");
    assert_eq!(ann.ask("POST", "/jobs", Some(&job)).0, 419);

    assert_eq!(delegate(&grid, &ann, 1).0, 201);
    let kept = ann.get(&path("")).json();
    let ends = kept["termination_time"].as_str().unwrap();
    assert!(ends.len() == 19 && ends.as_bytes()[10] == b'T', "{ends}");
    assert_eq!(kept["voms_attrs"], json!([]));
    let accepted = ann.ask("POST", "/jobs", Some(&job));
    assert_eq!(accepted.0, 200, "{}", accepted.1);
    let job_id = accepted.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(ann.get(&format!("/jobs/{job_id}")).json()["user_dn"], ANN);
    assert_eq!(bob.get(&format!("/jobs/{job_id}")).0, 404);

    assert_eq!(ann.ask("POST", &path("/voms"), None).0, 501);
    assert_eq!((ann.ask("DELETE", &path(""), None).0, ann.ask("DELETE", &path(""), None).0), (204, 404));
    assert_eq!(ann.get(&path("")).json(), Value::Null);
}

/// A WebDAV server that all clients may read, and only Ann may write.
fn storage(grid: &Grid) -> Node {
    let setup = Setup::new().data_export("rw");
    let policy = format!(
        "[third_party]\nlocal = true\nguests = true\n\
         [[allow]]\nanyone = true\nexport = \"data\"\nrights = [\"read\"]\n\
         [[allow]]\ndn = \"{ANN}\"\nexport = \"data\"\nrights = [\"read\", \"write\"]\n"
    );
    fs::create_dir(setup.state()).unwrap();
    fs::write(setup.state().join("access.toml"), policy).unwrap();
    let certificate = setup.state().join("site.pem");
    fs::write(&certificate, crate::https::certificate(&["127.0.0.1"], &[])).unwrap();
    let setup = setup.arg("--certificate").arg(certificate).arg("--client-ca").arg(grid.path("ca.pem"));
    setup.arg("--cacert").arg(grid.path("servers.pem")).start()
}

#[test]
fn servers_copy_for_the_owner_of_a_delegated_proxy() {
    if !is_installed("servers_copy_for_the_owner_of_a_delegated_proxy", "openssl") {
        return;
    }
    let grid = Grid::new();
    grid.proxy("proxy", "ann", ANN, 1);
    let hub = hub(&grid);
    let (a, b) = (storage(&grid), storage(&grid));
    let admin = hub.member("admin", "root", "");
    let url = |node: &Node, path: &str| format!("davs://127.0.0.1:{}/{path}", node.port);
    for (name, node) in [("da", &a), ("db", &b)] {
        admin.run(&["hub", "endpoint", "add", name, "--kind", "webdav", "--url", &url(node, "")]).expect(0);
    }
    fs::write(a.data("f"), pattern(1 << 20)).unwrap();
    // Without a proxy no client may write there.
    let anonymous = admin.run(&["submit", &url(&a, "data/f"), &url(&b, "data/g"), "--wait"]);
    assert_ne!(anonymous.code, 0, "{}", anonymous.err);

    let ann = client_with(&grid, &hub, "proxy.all");
    assert_eq!(delegate(&grid, &ann, 1).0, 201);
    assert_copied(&grid, &ann, &url(&a, "data/f"), &url(&b, "data/g"));
    assert_eq!(fs::read(b.data("g")).unwrap(), pattern(1 << 20));
}

/// Submits a copy, which must succeed.
fn assert_copied(grid: &Grid, ann: &GridClient<'_>, from: &str, to: &str) {
    let accepted = ann.ask("POST", "/jobs", Some(&submission(grid, from, to)));
    let id = accepted.json()["job_id"].as_str().unwrap().to_owned();
    let job = until_some("the job has ended", LONG, || {
        let job = ann.get(&format!("/jobs/{id}?files=file_state,reason")).json();
        Some(job).filter(|job| !job["job_finished"].is_null())
    });
    assert_eq!((&job["job_state"], &job["files"][0]["reason"]), (&json!("FINISHED"), &Value::Null), "{job}");
}

#[test]
fn a_node_described_by_an_admin_gets_a_delegated_proxy() {
    if !is_installed("a_node_described_by_an_admin_gets_a_delegated_proxy", "openssl") {
        return;
    }
    let grid = Grid::new();
    grid.proxy("proxy", "ann", ANN, 1);
    let hub = hub(&grid);
    let (node, server) = (storage(&grid), storage(&grid));
    let admin = hub.member("admin", "root", "");
    let key = admin.write("node.key", &node.grant(&["--export", "data", "--write"]));
    admin.run(&["hub", "endpoint", "add", "node", "--url", &node.at(""), "--endpoint-key-file", &key]).expect(0);
    let target = |name: &str| format!("davs://127.0.0.1:{}/data/{name}", server.port);
    admin.run(&["hub", "endpoint", "add", "dav", "--kind", "webdav", "--url", &target("")]).expect(0);
    fs::write(node.data("f"), pattern(1 << 20)).unwrap();
    let anonymous = admin.run(&["submit", &node.at("data/f"), &target("g"), "--wait"]);
    assert_ne!(anonymous.code, 0, "{}", anonymous.err);

    let ann = client_with(&grid, &hub, "proxy.all");
    assert_eq!(delegate(&grid, &ann, 1).0, 201);
    assert_copied(&grid, &ann, &node.at("data/f"), &target("g"));
    assert_eq!(fs::read(server.data("g")).unwrap(), pattern(1 << 20));
    // The delegated proxy is not kept.
    let kept =
        std::process::Command::new("grep").args(["-rl", "PRIVATE KEY"]).arg(node.state().join("transfers")).output();
    assert!(kept.unwrap().stdout.is_empty());
}

/// A node with this authority of clients, whose policy knows Bob, and production in the organisation of the grid.
fn node_with_roles(grid: &Grid, authorities: PathBuf) -> Node {
    let setup = Setup::new().data_export("rw");
    let policy = format!(
        "[[allow]]\ndn = \"{BOB}\"\nexport = \"data\"\nrights = [\"read\"]\n\
         [[allow]]\nfqan = \"/astro.example/Role=production\"\nexport = \"data\"\nrights = [\"read\", \"write\"]\n"
    );
    fs::create_dir(setup.state()).unwrap();
    fs::write(setup.state().join("access.toml"), policy).unwrap();
    fs::write(setup.data().join("f"), b"data").unwrap();
    setup.arg("--client-ca").arg(authorities).arg("--vomsdir").arg(grid.path("vomsdir")).start()
}

#[test]
fn a_node_judges_people_by_roles_revocation_and_signing_policies() {
    const TEST: &str = "a_node_judges_people_by_roles_revocation_and_signing_policies";
    if !is_installed(TEST, "openssl") || !is_installed(TEST, "voms-proxy-fake") {
        return;
    }
    let grid = Grid::new();
    grid.voms_proxy("production", &["/astro.example/Role=production", "/astro.example"]);
    grid.voms_proxy("member", &["/astro.example"]);
    let ask = |node: &Node, method: &str, certificate: &str| {
        let client = GridClient { url: String::new(), certificate: Some(grid.path(certificate)), grid: &grid };
        let body = (method == "PUT").then(|| grid.path("ca.pem"));
        let name = if method == "PUT" { "new" } else { "f" };
        client.ask_url(method, &format!("https://127.0.0.1:{}/data/{name}", node.port), body.as_deref())
    };

    let node = node_with_roles(&grid, grid.authority_directory(&[]));
    assert_eq!(ask(&node, "GET", "bob.all").1, "data");
    assert_eq!(ask(&node, "PUT", "bob.all").0, 403, "Bob may read only");
    assert_eq!(ask(&node, "PUT", "production.all").0, 201, "Ann writes by her role");
    assert_eq!(ask(&node, "GET", "member.all").0, 403, "the group is not the role");
    assert_eq!(ask(&node, "GET", "ann.all").0, 403, "and without attributes Ann is nobody here");

    // Bob's certificate is revoked; Ann's proxies still count.
    let node = node_with_roles(&grid, grid.authority_directory(&["bob"]));
    let answer = ask(&node, "GET", "bob.all");
    assert!(answer.0 == 401 && answer.1.contains("was revoked by its authority"), "{} {}", answer.0, answer.1);
    assert_eq!(ask(&node, "GET", "production.all").1, "data");

    // The authority may not sign such names.
    let dir = grid.authority_directory(&[]);
    let policy = fs::read_to_string(dir.join("grid.signing_policy")).unwrap();
    fs::write(dir.join("grid.signing_policy"), policy.replace("/O=Grid/*", "/O=Other/*")).unwrap();
    let node = node_with_roles(&grid, dir);
    let answer = ask(&node, "GET", "bob.all");
    assert!(answer.0 == 401 && answer.1.contains("may not sign the name"), "{} {}", answer.0, answer.1);
}

#[test]
fn a_hub_refuses_revoked_certificates() {
    if !is_installed("a_hub_refuses_revoked_certificates", "openssl") {
        return;
    }
    let grid = Grid::new();
    grid.authority_directory(&["bob"]);
    let hub = Hub::start(&["--client-ca", grid.argument("certificates")]);
    assert_eq!(client_with(&grid, &hub, "ann.all").get("/whoami").0, 200);
    let refused = client_with(&grid, &hub, "bob.all").get("/whoami");
    assert!(refused.0 == 401 && refused.1.contains("was revoked"), "{} {}", refused.0, refused.1);
}
