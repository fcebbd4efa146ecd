//! xrdcp and xrdfs with their HTTP plug-in, and xrdcp against xrootd's own protocol on the other side.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::context::CaseContext;

const XRDCP: &str = "xrdcp";

pub const CASES: &[Case] = &[
    Case::new(XRDCP, "get", "xrdcp --allow-http from us, in clear and over TLS", "the file", get),
    Case::new(XRDCP, "put", "xrdcp --allow-http to us, in clear and over TLS", "the file", put),
    Case::new(XRDCP, "get-missing", "xrdcp --allow-http of nothing", "fails", get_missing),
    Case::new(XRDCP, "stat", "xrdfs stat", "the size", stat),
    Case::new(XRDCP, "from-root", "xrdcp from root:// to us", "the file", from_root),
    Case::new(XRDCP, "to-root", "xrdcp from us to root://", "the file", to_root),
];

const XRD: [&str; 5] = ["xrdcp", "--allow-http", "--nopbar", "-f", "-s"];

fn xrdcp(context: &CaseContext, from: &str, to: &str) -> crate::clients::ClientOutput {
    context.run(&[&XRD[..], &[from, to]].concat())
}

fn get(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(20_000_000));
    dir.put("f", &bytes);
    for (url, name) in [(dir.http("f"), "clear"), (dir.https("f"), "tls")] {
        let path = context.path(name).display().to_string();
        xrdcp(context, &url, &path).expect_success();
        assert!(std::fs::read(path).unwrap() == bytes, "{name}");
    }
}

fn put(context: &CaseContext) {
    let (dir, bytes) = (context.open(), pattern(20_000_000));
    let file = context.write("f", &bytes);
    for (url, name) in [(dir.http("clear"), "clear"), (dir.https("tls"), "tls")] {
        xrdcp(context, &file, &url).expect_success();
        assert!(dir.get(name) == bytes, "{name}");
    }
}

fn get_missing(context: &CaseContext) {
    let path = context.path("f").display().to_string();
    xrdcp(context, &context.open().http("f"), &path).expect_failure();
}

fn stat(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", FORTY);
    let root = format!("http://{}", dir.address());
    context.run(&["xrdfs", &root, "stat", &dir.target("f")]).expect_success().expect_text("Size:   40");
}

fn from_root(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(5_000_000));
    theirs.put("f", &bytes);
    xrdcp(context, &theirs.root("f"), &ours.http("g")).expect_success();
    assert!(ours.get("g") == bytes);
}

fn to_root(context: &CaseContext) {
    let (ours, theirs, bytes) = (context.open(), context.stock(), pattern(5_000_000));
    ours.put("f", &bytes);
    xrdcp(context, &ours.http("f"), &theirs.root("g")).expect_success();
    assert!(theirs.get("g") == bytes);
}
