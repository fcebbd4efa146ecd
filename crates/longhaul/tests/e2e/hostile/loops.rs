//! Links that lead to themselves count as missing.

use std::os::unix::fs::symlink;

use model::fault::Fault;

use super::requests::Requests;
use super::session::{Session, place};
use crate::node::Setup;

#[test]
fn a_circular_link_is_missing() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain").start();
    symlink("two", node.data("one")).unwrap();
    symlink("one", node.data("two")).unwrap();
    symlink("self", node.data("self")).unwrap();
    let mut requests = Requests::new(&node, None);
    for target in ["/data/one", "/data/self", "/data/self/below", "/data/one/"] {
        for method in ["GET", "HEAD"] {
            assert_eq!(requests.status(method, target, &[], b""), 404, "{method} {target}");
        }
    }
    for path in ["self/below", "one/below"] {
        let got = Session::open(&node, None).unwrap().get(place("data", path));
        let fault = got.expect_err(path).fault;
        assert!(matches!(fault, Fault::Missing | Fault::Auth | Fault::Storage), "{path}: {fault:?}");
    }
}
