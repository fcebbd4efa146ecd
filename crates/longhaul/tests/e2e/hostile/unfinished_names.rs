//! Names of unfinished files are reserved by the node, in native requests as over HTTP.

use std::fs;

use model::Algorithm;
use wire::frame::{Direction, Entry, Request};

use super::measures::holds;
use super::session::{Session, order_at, place};
use crate::node::{Node, Setup};
use crate::raw_client::{dir, file};

const NAME: &str = ".longhaul-x.part";

#[test]
fn unfinished_files_have_no_native_names() {
    let node: Node = Setup::new().data_export("rw").arg("--anonymous").arg("rw").start();
    fs::create_dir_all(node.data("d")).unwrap();
    for path in [NAME, "d/.longhaul-x.part"] {
        fs::write(node.data(path), b"half of a secret").unwrap();
    }
    fs::write(node.data("f"), b"whole").unwrap();
    let mut session = Session::open(&node, None).unwrap();
    for below in ["", "d"] {
        let lines = session.query(Request::List(place("data", below))).unwrap();
        assert!(!format!("{lines:?}").contains("longhaul-x"), "{below:?} lists it: {lines:?}");
    }
    let digests = session.query(Request::Digest(place("data", ""), vec![Algorithm::Crc32c])).unwrap();
    assert!(!format!("{digests:?}").contains("longhaul-x"), "a digest of the tree has it: {digests:?}");
    let at = |below: &str| place("data", &format!("{NAME}{below}"));
    for request in [
        Request::Stat(at("")),
        Request::List(at("")),
        Request::Digest(at(""), vec![Algorithm::Crc32c]),
        Request::Remove(at(""), false),
        Request::Rename(at(""), place("data", "stolen")),
        Request::Rename(place("data", "f"), place("data", ".longhaul-y.part")),
        Request::Mkdir(place("data", ".longhaul-z.part")),
        Request::Mkdir(place("data", ".longhaul-z.part/below")),
    ] {
        let what = format!("{request:?}");
        let fault = session.query(request).expect_err(&what).fault;
        use model::fault::Fault;
        assert!(matches!(fault, Fault::Auth | Fault::Missing), "{what}: {fault:?}");
    }
    let got = Session::open(&node, None).unwrap().get(at(""));
    assert!(got.is_err(), "it was read");
    let tree = Session::open(&node, None).unwrap().get(place("data", "")).unwrap_or_default();
    assert!(!holds(&tree, b"half of a secret"), "it was read with its tree");
    for put in [".longhaul-w.part", ".longhaul-w.part/below"] {
        let put = Session::open(&node, None).unwrap().put(place("data", put), b"x");
        assert!(put.is_err(), "one was made");
    }
    let entries = vec![dir(1, 0, "t"), file(2, 1, ".longhaul-v.part", 1), Entry::Leave(1)];
    let order = order_at(Direction::Push, place("data", "t"));
    let in_tree = Session::open(&node, None).unwrap().push(order, entries, &[(2, b"x")]);
    assert!(in_tree.is_err() || !node.data("t/.longhaul-v.part").exists(), "one was made in a tree");
    let mut names: Vec<_> = fs::read_dir(node.data("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert!(names.iter().all(|name| [NAME, "d", "f", "t"].iter().any(|known| *name == **known)), "{names:?}");
    assert_eq!(fs::read(node.data(NAME)).unwrap(), b"half of a secret");
}
