//! xrdcp and xrdfs with their HTTP plug-in, and xrdcp against xrootd's own protocol on the other side.

use super::{FORTY, pattern};
use crate::case::Case;
use crate::scene::CaseContext;

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

fn xrdcp(scene: &CaseContext, from: &str, to: &str) -> crate::clients::ClientOutput {
    scene.run(&[&XRD[..], &[from, to]].concat())
}

fn get(scene: &CaseContext) {
    let (room, bytes) = (scene.open(), pattern(20_000_000));
    room.put("f", &bytes);
    for (url, name) in [(room.http("f"), "clear"), (room.https("f"), "tls")] {
        let path = scene.path(name).display().to_string();
        xrdcp(scene, &url, &path).well();
        assert!(std::fs::read(path).unwrap() == bytes, "{name}");
    }
}

fn put(scene: &CaseContext) {
    let (room, bytes) = (scene.open(), pattern(20_000_000));
    let file = scene.write("f", &bytes);
    for (url, name) in [(room.http("clear"), "clear"), (room.https("tls"), "tls")] {
        xrdcp(scene, &file, &url).well();
        assert!(room.get(name) == bytes, "{name}");
    }
}

fn get_missing(scene: &CaseContext) {
    let path = scene.path("f").display().to_string();
    xrdcp(scene, &scene.open().http("f"), &path).badly();
}

fn stat(scene: &CaseContext) {
    let room = scene.open();
    room.put("f", FORTY);
    let root = format!("http://{}", room.address());
    scene.run(&["xrdfs", &root, "stat", &room.target("f")]).well().says("Size:   40");
}

fn from_root(scene: &CaseContext) {
    let (ours, theirs, bytes) = (scene.open(), scene.stock(), pattern(5_000_000));
    theirs.put("f", &bytes);
    xrdcp(scene, &theirs.root("f"), &ours.http("g")).well();
    assert!(ours.get("g") == bytes);
}

fn to_root(scene: &CaseContext) {
    let (ours, theirs, bytes) = (scene.open(), scene.stock(), pattern(5_000_000));
    ours.put("f", &bytes);
    xrdcp(scene, &ours.http("f"), &theirs.root("g")).well();
    assert!(theirs.get("g") == bytes);
}
