//! Rucio's own commands, as PyPI has them, at a hub: names, rules, copies, uploads to nodes and downloads from them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::clients::ClientOutput;
use crate::context::CaseContext;
use crate::fts::hub_with_nodes::{HubWithNodes, environment};
use crate::node::Node;
use crate::tokens::{AUDIENCE, ISSUER};

/// Rucio's commands.
const COMMANDS: &str = "rucio-commands";

/// Whether a client is this one: docs/rucio.md describes it.
pub fn is_of(client: &str) -> bool {
    client == COMMANDS
}

pub const CASES: &[Case] = &[
    Case::new(
        COMMANDS,
        "login",
        "`ping`, `whoami`; with another password",
        "an access key of the hub is the password; refused",
        login,
    ),
    Case::new(
        COMMANDS,
        "certificate",
        "`auth_type = x509`: `whoami`, `scope list`",
        "the certificate is shown once, and answered with a key of an hour",
        certificate,
    ),
    Case::new(
        COMMANDS,
        "token",
        "`auth_type = oidc` with a token in `BEARER_TOKEN`: `whoami`, `did list`; an expired one",
        "a token of an issuer that the hub knows; refused",
        token,
    ),
    Case::new(COMMANDS, "scopes", "`scope add`, `scope list`", "by operators; all scopes", scopes),
    Case::new(
        COMMANDS,
        "names",
        "`did add`, `list`, `list --parent`, `show`, `update --close`, `remove`",
        "as by Rucio; what is closed takes nothing more",
        names,
    ),
    Case::new(COMMANDS, "content", "`did content add`, `list`, `remove`", "as by Rucio; circles are refused", content),
    Case::new(
        COMMANDS,
        "metadata",
        "`did metadata set`, `list`, `unset`; `did list --filter`",
        "as by Rucio",
        metadata,
    ),
    Case::new(
        COMMANDS,
        "endpoints",
        "`rse list`, `list --rses`, `show`, `attribute list`, `add`",
        "endpoints with storage; `add` is refused: the hub's own words describe them",
        endpoints,
    ),
    Case::new(
        COMMANDS,
        "rules",
        "`rule add`, `list`, `show`, `update`, `move`, `remove`; twice; of too many copies",
        "as by Rucio; `DuplicateRule`; `InsufficientTargetRSEs`, with what could be",
        rules,
    ),
    Case::new(COMMANDS, "limits", "`account limit set`, `list`", "by operators; what is left", limits),
    Case::new(
        COMMANDS,
        "upload",
        "`upload` to a node, a rule to another, `replica list`, `download`",
        "the same bytes at both nodes and here; verified by Adler-32",
        upload,
    ),
    Case::new(
        COMMANDS,
        "bad",
        "`replica state update bad` of a copy that somebody has changed",
        "made anew from the other copy",
        bad,
    ),
];

/// A hub, nodes that admit anonymous clients, and Rucio's client.
struct Client<'a> {
    context: &'a CaseContext<'a>,
    hub: HubWithNodes<'a>,
}

impl<'a> Client<'a> {
    fn of(context: &'a CaseContext<'a>, nodes: usize) -> Client<'a> {
        environment("rucio");
        let nodes: Vec<Node> = (0..nodes).map(|_| Node::open()).collect();
        nodes.iter().for_each(|node| fs::create_dir(node.data("c")).unwrap());
        Client { context, hub: HubWithNodes::with_nodes(context, nodes, &[]) }
    }

    /// Runs a command of Rucio's as a user with a key.
    fn by(&self, account: &str, key: &str, words: &[&str]) -> ClientOutput {
        let host = format!("{}/rucio", self.hub.url.replace("https://", "http://"));
        let login = format!(
            "rucio_host = {host}\nauth_host = {host}\nauth_type = userpass\nusername = {account}\npassword = {key}\n"
        );
        self.logged_in(account, &login, &[], words)
    }

    /// Runs a command of Rucio's over TLS, with these settings of the login.
    fn over_tls(&self, login: &str, more: &[(&str, &str)], words: &[&str]) -> ClientOutput {
        let (host, ca) = (format!("{}/rucio", self.hub.url), self.context.test_bed.pki.ca.display());
        let login = format!("rucio_host = {host}\nauth_host = {host}\nca_cert = {ca}\n{login}");
        self.logged_in("somebody", &login, more, words)
    }

    fn logged_in(&self, account: &str, login: &str, more: &[(&str, &str)], words: &[&str]) -> ClientOutput {
        let config = format!("[client]\n{login}account = {account}\n");
        let config = self.context.write(&format!("{account}.cfg"), config.as_bytes());
        let robot = &self.context.test_bed.pki.robot;
        let both = [&robot.certificate, &robot.key].map(|file| fs::read(file).unwrap()).concat();
        // Without a token that storage understands, Rucio's client requires a proxy, which these nodes do not request.
        let proxy = self.context.write("proxy.pem", &both);
        let home = self.context.path("").display().to_string();
        let mut environment_of = vec![
            ("RUCIO_CONFIG", config.as_str()),
            ("RUCIO_ACCOUNT", account),
            ("RUCIO_CLIENT_MODE", "1"),
            ("X509_USER_PROXY", &proxy),
            ("TMPDIR", &home),
        ];
        environment_of.extend(more);
        let program = environment("rucio").join("bin/rucio").display().to_string();
        self.context.run_with(&environment_of, &[&[program.as_str()], words].concat())
    }

    fn ann(&self, words: &[&str]) -> ClientOutput {
        self.by("ann", &self.hub.user, words)
    }

    fn root(&self, words: &[&str]) -> ClientOutput {
        self.by("root", &self.hub.admin, words)
    }

    /// Waits until a file of a node's storage has these bytes.
    #[track_caller]
    fn until_there(&self, node: usize, name: &str, bytes: &[u8]) {
        let path = self.hub.nodes[node].data(&format!("c/{name}"));
        let begun = Instant::now();
        while !fs::read(&path).is_ok_and(|found| found == bytes) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{name} does not come to n{node}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn login(context: &CaseContext) {
    let client = Client::of(context, 0);
    client.ann(&["ping"]).expect_success().expect_text("41.5.1");
    client.ann(&["whoami"]).expect_success().expect_text("account    : ann").expect_text("ACTIVE");
    client
        .by("bob", &client.hub.user, &["did", "list", "user.bob:*"])
        .expect_failure()
        .expect_text("that is the key of ann");
    client.by("eve", "nonsense", &["did", "list", "user.eve:*"]).expect_failure().expect_text("Cannot authenticate");
}

fn certificate(context: &CaseContext) {
    let client = Client::of(context, 0);
    client.root(&["scope", "add", "survey", "-a", "ann"]).expect_success();
    let robot = &context.test_bed.pki.robot;
    let (certificate, key) = (robot.certificate.display(), robot.key.display());
    let login = format!("auth_type = x509\nclient_cert = {certificate}\nclient_key = {key}\n");
    client.over_tls(&login, &[], &["whoami"]).expect_success().expect_text("CN=robot").expect_text("ACTIVE");
    client.over_tls(&login, &[], &["scope", "list"]).expect_success().expect_text("survey");
}

fn token(context: &CaseContext) {
    fs::create_dir_all(context.path("hub")).unwrap();
    let jwks = context.write("jwks.json", context.test_bed.tokens.jwks().to_string().as_bytes());
    let policy = format!(
        "audiences = [\"{AUDIENCE}\"]\n[[issuer]]\nname = \"test\"\niss = \"{ISSUER}\"\nexport = \"data\"\njwks = \"{jwks}\"\n"
    );
    fs::write(context.path("hub/access.toml"), policy).unwrap();
    let client = Client::of(context, 0);
    client.ann(&["did", "add", "user.ann:d", "--type", "dataset"]).expect_success();
    let token = context.test_bed.tokens.wlcg("storage.read:/");
    let by_token =
        |token: &str, words: &[&str]| client.over_tls("auth_type = oidc\n", &[("BEARER_TOKEN", token)], words);
    by_token(&token, &["whoami"]).expect_success().expect_text("ACTIVE");
    by_token(&token, &["did", "list", "user.ann:*"]).expect_success().expect_text("user.ann:d");
    by_token(&context.test_bed.tokens.expired("storage.read:/"), &["did", "list", "user.ann:*"]).expect_failure();
}

fn scopes(context: &CaseContext) {
    let client = Client::of(context, 0);
    client.root(&["scope", "add", "survey", "-a", "ann"]).expect_success();
    client.root(&["scope", "list"]).expect_success().expect_text("survey");
    client.ann(&["did", "add", "survey:d1", "--type", "dataset"]).expect_success().expect_text("Added survey:d1");
    client.ann(&["did", "add", "nobody:d1", "--type", "dataset"]).expect_failure().expect_text("Scope does not exist");
}

fn names(context: &CaseContext) {
    let client = Client::of(context, 0);
    client.ann(&["did", "add", "user.ann:run/7", "--type", "dataset"]).expect_success();
    client.ann(&["did", "add", "user.ann:run/7", "--type", "dataset"]).expect_failure().expect_text("already exists");
    client.ann(&["did", "add", "user.ann:all", "--type", "container"]).expect_success();
    client.ann(&["did", "content", "add", "--to-did", "user.ann:all", "user.ann:run/7"]).expect_success();
    client.ann(&["did", "list", "user.ann:*"]).expect_success().expect_text("user.ann:run/7").expect_text("CONTAINER");
    client.ann(&["did", "list", "user.ann:run/7", "--parent"]).expect_success().expect_text("user.ann:all");
    client
        .ann(&["did", "show", "user.ann:run/7"])
        .expect_success()
        .expect_text("account:     ann")
        .expect_text("open:        True");
    client.ann(&["did", "show", "user.ann:none"]).expect_failure().expect_text("Data identifier not found");
    client.ann(&["did", "update", "user.ann:run/7", "--close"]).expect_success().expect_text("has been closed");
    client.ann(&["did", "update", "user.ann:run/7", "--close"]).expect_failure().expect_text("is closed already");
    client.ann(&["did", "remove", "user.ann:run/7"]).expect_success();
    client.ann(&["did", "metadata", "list", "user.ann:run/7"]).expect_success().expect_text("expired_at:  20");
}

fn content(context: &CaseContext) {
    let client = Client::of(context, 0);
    for (name, kind) in [("d", "dataset"), ("c", "container"), ("cc", "container")] {
        client.ann(&["did", "add", &format!("user.ann:{name}"), "--type", kind]).expect_success();
    }
    client.ann(&["did", "content", "add", "--to-did", "user.ann:c", "user.ann:d"]).expect_success();
    client.ann(&["did", "content", "add", "--to-did", "user.ann:cc", "user.ann:c"]).expect_success();
    client.ann(&["did", "content", "list", "user.ann:c"]).expect_success().expect_text("user.ann:d");
    client
        .ann(&["did", "content", "add", "--to-did", "user.ann:c", "user.ann:cc"])
        .expect_failure()
        .expect_text("that would be a circle");
    client.ann(&["did", "content", "remove", "--from-did", "user.ann:c", "user.ann:d"]).expect_success();
    assert!(!client.ann(&["did", "content", "list", "user.ann:c"]).expect_success().out.contains("user.ann:d"));
}

fn metadata(context: &CaseContext) {
    let client = Client::of(context, 0);
    for name in ["user.ann:d1", "user.ann:d2"] {
        client.ann(&["did", "add", name, "--type", "dataset"]).expect_success();
    }
    client.ann(&["did", "metadata", "set", "user.ann:d1", "--key", "telescope", "--value", "low"]).expect_success();
    client.ann(&["did", "metadata", "list", "user.ann:d1"]).expect_success().expect_text("telescope:");
    let found = client
        .ann(&["did", "list", "user.ann:*", "--filter", "telescope=low"])
        .expect_success()
        .expect_text("user.ann:d1");
    assert!(!found.out.contains("user.ann:d2"), "{found:#?}");
    client.ann(&["did", "metadata", "unset", "user.ann:d1", "--key", "telescope"]).expect_success();
    assert!(!client.ann(&["did", "metadata", "list", "user.ann:d1"]).expect_success().out.contains("telescope"));
}

fn endpoints(context: &CaseContext) {
    let client = Client::of(context, 2);
    client.ann(&["rse", "list"]).expect_success().expect_text("n0").expect_text("n1");
    let found = client.ann(&["rse", "list", "--rses", r"region=eu\n0"]).expect_success().expect_text("n1");
    assert!(!found.out.contains("n0"), "{found:#?}");
    client.ann(&["rse", "list", "--rses", "region=moon"]).expect_failure().expect_text("matches no endpoint");
    client.ann(&["rse", "show", "n0"]).expect_success().expect_text("n0").expect_text("webdav");
    client.ann(&["rse", "attribute", "list", "n0"]).expect_success().expect_text("region: eu").expect_text("n0: True");
    client.root(&["rse", "add", "n9"]).expect_failure().expect_text("longhaul hub endpoint set");
}

fn rules(context: &CaseContext) {
    let client = Client::of(context, 2);
    client.ann(&["did", "add", "user.ann:d", "--type", "dataset"]).expect_success();
    let add = |words: &[&str]| client.ann(&[&["rule", "add", "user.ann:d"], words].concat());
    let id = add(&["--copies", "1", "--rses", "n1", "--lifetime", "86400"]).expect_success().out.trim().to_owned();
    add(&["--copies", "1", "--rses", "n1"]).expect_failure().expect_text("Duplicate");
    add(&["--copies", "3", "--rses", "region=eu"])
        .expect_failure()
        .expect_text("3 copies cannot be placed")
        .expect_text("ask for 2");
    add(&["--copies", "1", "--rses", "region=("])
        .expect_failure()
        .expect_text("is not a valid expression of endpoints");
    client.ann(&["rule", "list", "--did", "user.ann:d"]).expect_success().expect_text(&id).expect_text("OK[0/0/0]");
    client.ann(&["rule", "list", "--account", "ann"]).expect_success().expect_text(&id);
    client.ann(&["rule", "show", &id]).expect_success().expect_text("rse expression").expect_text("n1");
    client.ann(&["rule", "update", &id, "--priority", "5"]).expect_success();
    client.ann(&["rule", "show", &"0".repeat(32)]).expect_failure().expect_text("no replication rule");
    let moved = client.ann(&["rule", "move", &id, "--rses", "n0"]).expect_success().out;
    assert!(moved.trim().len() >= 32, "{moved}");
    client.ann(&["rule", "remove", "user.ann:d", "--rses", "n0"]).expect_success();
}

fn limits(context: &CaseContext) {
    let client = Client::of(context, 1);
    client
        .ann(&["account", "limit", "set", "ann", "--rse", "n0", "--bytes", "1000"])
        .expect_failure()
        .expect_text("needs the role operator");
    client.root(&["account", "limit", "set", "ann", "--rse", "n0", "--bytes", "1000"]).expect_success();
    client.ann(&["account", "limit", "list", "ann"]).expect_success().expect_text("n0").expect_text("1.000 kB");
}

fn upload(context: &CaseContext) {
    let client = Client::of(context, 2);
    let bytes = super::cases::pattern(300_000);
    let file = context.write("visibilities.ms", &bytes);
    client.ann(&["did", "add", "user.ann:d", "--type", "dataset"]).expect_success();
    let seen = client.ann(&["upload", "user.ann:d", &file, "--rse", "n0", "--scope", "user.ann"]).expect_success();
    assert!(!seen.err.contains("ERROR"), "{seen:#?}");
    client.until_there(0, "user/ann/visibilities.ms", &bytes);
    client.ann(&["rule", "add", "user.ann:d", "--copies", "1", "--rses", "n1"]).expect_success();
    client.until_there(1, "user/ann/visibilities.ms", &bytes);
    client.ann(&["replica", "list", "file", "user.ann:visibilities.ms"]).expect_success().expect_text("n0: https://");
    client.ann(&["replica", "list", "dataset", "user.ann:d"]).expect_success().expect_text("n0").expect_text("1");
    let target = context.path("got").display().to_string();
    let seen = client.ann(&["download", "user.ann:d", "--dir", &target]).expect_success();
    assert!(!seen.err.contains("ERROR"), "{seen:#?}");
    assert_eq!(fs::read(Path::new(&target).join("d/visibilities.ms")).unwrap(), bytes);
}

fn bad(context: &CaseContext) {
    let client = Client::of(context, 2);
    let bytes = super::cases::pattern(50_000);
    let file = context.write("f.ms", &bytes);
    client.ann(&["upload", &file, "--rse", "n0", "--scope", "user.ann"]).expect_success();
    client.until_there(0, "user/ann/f.ms", &bytes);
    client.ann(&["rule", "add", "user.ann:f.ms", "--copies", "1", "--rses", "n1"]).expect_success();
    client.until_there(1, "user/ann/f.ms", &bytes);
    // The node has it a moment before the hub knows.
    let begun = Instant::now();
    let is_known = || {
        let rules = client.ann(&["rule", "list", "--did", "user.ann:f.ms"]).expect_success().out;
        rules.lines().any(|rule| rule.contains(" n1 ") && rule.contains("OK[1/0/0]"))
    };
    while !is_known() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the rule is never fulfilled");
    }
    fs::write(client.hub.nodes[1].data("c/user/ann/f.ms"), b"flipped").unwrap();
    let list = context.write("lfns", b"f.ms");
    let words = [
        "replica",
        "state",
        "update",
        "bad",
        "--lfn",
        &list,
        "--scope",
        "user.ann",
        "--rse",
        "n1",
        "--reason",
        "bits are flipped",
    ];
    client.ann(&words).expect_success();
    client.until_there(1, "user/ann/f.ms", &bytes);
}
