//! A node's page in a browser: no script, no key in links, and forms that count only from the page itself.

use std::fs;

use crate::https::{self, Answer, HttpsClient};
use crate::node::Node;

/// What a browser sends with every request.
fn browser() -> HttpsClient {
    HttpsClient::default().with("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
}

fn origin(node: &Node) -> String {
    format!("https://127.0.0.1:{}", node.port)
}

/// A form from the page itself.
fn form(node: &Node, client: &HttpsClient, place: &str, body: &str) -> Answer {
    let client = client.clone().with("Content-Type", "application/x-www-form-urlencoded").with("Origin", &origin(node));
    client.ask(node, "POST", &format!("{place}?form"), body.as_bytes())
}

/// Files of a form.
fn upload(node: &Node, client: &HttpsClient, place: &str, files: &[(&str, &[u8])]) -> Answer {
    let mut body = Vec::new();
    for (name, bytes) in files {
        let head = format!("--b0undary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b0undary--\r\n");
    let client =
        client.clone().with("Content-Type", "multipart/form-data; boundary=b0undary").with("Origin", &origin(node));
    client.ask(node, "POST", &format!("{place}?form"), &body)
}

/// The cookie that an answer sets, as a browser sends it back.
fn cookie(answer: &Answer) -> String {
    let set = answer.headers.get("set-cookie").unwrap_or_else(|| panic!("{answer:?}"));
    assert!(set.contains("; HttpOnly; SameSite=Strict; Secure") && set.starts_with("__Host-longhaul-"), "{set}");
    set.split(';').next().unwrap().to_owned()
}

fn node() -> Node {
    let node = https::setup("").start();
    fs::create_dir(node.data("d")).unwrap();
    for (name, len) in [("d/b", 5), ("d/a", 500), ("d/c", 50)] {
        fs::write(node.data(name), vec![b'x'; len]).unwrap();
    }
    node
}

#[test]
fn a_key_is_shown_once_and_is_in_no_link() {
    let (node, key) = {
        let node = node();
        let key = node.grant(&["--export", "data", "--write"]);
        (node, key)
    };
    let anonymous = browser().get(&node, "/");
    assert!(anonymous.status == 200 && anonymous.body.contains("Access key or token"), "{anonymous:?}");
    assert_eq!(HttpsClient::default().get(&node, "/").status, 401, "a program needs a credential");
    // By a form, and by a link that a user got.
    let entered = form(&node, &browser(), "/", &format!("do=enter&key={key}"));
    assert_eq!(entered.status, 303, "{entered:?}");
    let linked = browser().get(&node, &format!("/data/d/?authz={key}"));
    assert_eq!((linked.status, linked.headers.get("location")), (303, Some("/data/d/")), "{linked:?}");
    for session in [cookie(&entered), cookie(&linked)] {
        let known = browser().with("Cookie", &session);
        let page = known.get(&node, "/data/d/");
        assert!(page.status == 200 && page.body.contains("500 B") && !page.body.contains("lhk1_"), "{page:?}");
        assert!(page.body.contains("Sign out") && page.body.contains("longhaul cp -r lh://"), "{page:?}");
        assert_eq!(known.get(&node, "/data/d/a").body.len(), 500);
        let left = form(&node, &known, "/", "do=leave");
        assert!(left.headers.get("set-cookie").is_some_and(|set| set.contains("Max-Age=0")), "{left:?}");
        assert_eq!(known.clone().with("Accept", "*/*").get(&node, "/data/d/a").status, 401);
    }
    let wrong = form(&node, &browser(), "/", "do=enter&key=lhk1_nonsense");
    assert!(wrong.status == 403 && wrong.headers.get("set-cookie").is_none(), "{wrong:?}");
    // The links of a page keep the key of the request.
    let listed = HttpsClient::default().get(&node, &format!("/data/d/?authz={key}"));
    assert!(listed.status == 200 && listed.body.contains(&format!("./a?authz={key}")), "{listed:?}");
}

#[test]
fn entries_are_sorted_as_the_query_orders() {
    let node = node();
    let client = HttpsClient::bearer(&node.grant(&["--export", "data"])).with("Accept", "text/html");
    let order = |query: &str| {
        let page = client.get(&node, &format!("/data/d/{query}")).body;
        let mut found: Vec<(usize, &str)> =
            ["a", "b", "c"].map(|name| (page.find(&format!("./{name}\"")).unwrap(), name)).into();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name).collect::<String>()
    };
    let orders = ["", "?sort=name&order=desc", "?sort=size&order=asc", "?sort=size&order=desc"].map(order);
    assert_eq!(orders, ["abc", "cba", "bca", "acb"]);
    let page = client.get(&node, "/data/d/").body;
    assert!(!page.contains("<form") && !page.contains("<script"), "a reader gets no forms: {page}");
}

#[test]
fn files_are_sent_and_folders_made_where_that_is_allowed() {
    let node = node();
    let writer = browser().with("Authorization", &format!("Bearer {}", node.grant(&["--export", "data", "--write"])));
    let page = writer.get(&node, "/data/d/").body;
    assert!(page.contains("Send files") && page.contains("New folder"), "{page}");
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let sent = upload(&node, &writer, "/data/d/", &[("new file", b"one"), ("..\\large", &large), ("", b"")]);
    assert_eq!((sent.status, sent.headers.get("location")), (303, Some("?")), "{sent:?}");
    assert!(fs::read(node.data("d/new file")).unwrap() == b"one" && fs::read(node.data("d/large")).unwrap() == large);
    let again = upload(&node, &writer, "/data/d/", &[("new file", b"two")]);
    assert!(again.status == 409 && again.body.contains("exists already"), "{again:?}");
    assert_eq!(fs::read(node.data("d/new file")).unwrap(), b"one");
    assert_eq!(form(&node, &writer, "/data/d/", "do=mkdir&name=made+here").status, 303);
    assert!(node.data("d/made here").is_dir());
    assert_eq!(form(&node, &writer, "/data/d/", "do=mkdir&name=made+here").status, 409);
    for bad in ["do=mkdir&name=a%2Fb", "do=mkdir&name=..", "do=mkdir&name=", "do=nothing", ""] {
        assert_eq!(form(&node, &writer, "/data/d/", bad).status, 400, "{bad}");
    }
    assert_eq!(upload(&node, &writer, "/data/d/", &[]).status, 400);
    let reader = browser().with("Authorization", &format!("Bearer {}", node.grant(&["--export", "data"])));
    assert_eq!(upload(&node, &reader, "/data/d/", &[("x", b"x")]).status, 403);
    assert_eq!(form(&node, &reader, "/data/d/", "do=mkdir&name=x").status, 403);
    assert!(!node.data("d/x").exists() && crate::client::unfinished(&node.data("d")).is_empty());
}

/// A request that another site can make a browser send, with the cookie.
#[test]
fn other_sites_can_do_nothing() {
    let node = node();
    let key = node.grant(&["--export", "data", "--write"]);
    let known = browser().with("Cookie", &cookie(&form(&node, &browser(), "/", &format!("do=enter&key={key}"))));
    let urlencoded = known.clone().with("Content-Type", "application/x-www-form-urlencoded");
    for from in [None, Some("https://evil.example"), Some("null"), Some("https://127.0.0.1")] {
        let client = from.map_or(urlencoded.clone(), |from| urlencoded.clone().with("Origin", from));
        assert_eq!(client.ask(&node, "POST", "/data/d/?form", b"do=mkdir&name=x").status, 403, "{from:?}");
    }
    for method in ["PUT", "DELETE", "MKCOL", "MOVE", "COPY", "PROPFIND", "POST"] {
        let answer = known.clone().with("Origin", &origin(&node)).ask(&node, method, "/data/d/b", b"");
        assert!([400, 401, 403, 405, 415].contains(&answer.status), "{method}: {answer:?}");
    }
    assert!(!node.data("d/x").exists() && fs::read(node.data("d/b")).unwrap() == b"xxxxx");
}
