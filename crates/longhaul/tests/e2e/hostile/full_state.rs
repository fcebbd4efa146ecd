//! A full state directory: keys can still be revoked.

use std::fs::{self, File};
use std::io::Write;

use super::requests::Requests;
use super::session::{Session, grant_id};
use crate::node::Setup;
use crate::wrappers::{mounted, with_mounts};

#[test]
fn a_key_is_revoked_where_the_state_directory_is_full() {
    const TEST: &str = "hostile::full_state::a_key_is_revoked_where_the_state_directory_is_full";
    with_mounts(TEST, || {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let Some(_mount) = mounted(&state, "size=8m", TEST) else { return };
        let node = Setup::new().with_state(&state).data_export("rw").arg("--plain").start();
        fs::write(node.data("f"), b"x").unwrap();
        let (key, other) = (node.grant(&["--export", "data", "--write"]), node.grant(&["--export", "data"]));
        let mut requests = Requests::new(&node, Some(&key));
        assert_eq!(requests.status("GET", "/data/f", &[], b""), 200);
        // The state directory is filled to the last byte.
        let mut full = File::create(state.join("full")).unwrap();
        for piece in [1 << 16, 1 << 12, 1] {
            while full.write_all(&vec![7; piece]).is_ok() {}
        }
        let output = node.grant_command(&["revoke", &grant_id(&key)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(requests.status("GET", "/data/f", &[], b""), 401, "the key still opens");
        assert!(Session::open(&node, Some(&key)).is_err(), "the key still opens natively");
        assert!(Session::open(&node, Some(&other)).is_ok(), "another key was lost");
        fs::remove_file(state.join("full")).unwrap();
        assert_eq!(requests.status("GET", "/data/f", &[], b""), 401, "the key is valid again");
        let list = String::from_utf8(node.grant_command(&["list"]).stdout).unwrap();
        assert!(list.contains(&grant_id(&other)) && !list.contains(&grant_id(&key)), "{list}");
    });
}
