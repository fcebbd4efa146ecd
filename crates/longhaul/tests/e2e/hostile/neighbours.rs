//! A node with few descriptors: an address with all the sessions that it may have leaves descriptors to other addresses.

use std::fs;
use std::time::{Duration, Instant};

use super::requests::from_address;
use crate::client::{Client, words};
use crate::node::Setup;
use crate::raw_client::RawClient;
use crate::wait::{LONG, until};
use crate::web::raw::Raw;

#[test]
fn sessions_of_one_address_leave_descriptors_to_others() {
    let node = Setup::new().descriptors(256).data_export("rw").arg("--anonymous").arg("rw").arg("--plain").start();
    fs::write(node.data("f"), b"x").unwrap();
    let (mut held, mut sessions) = (Vec::new(), Vec::new());
    let mut admitted = 0;
    for _ in 0..150 {
        let began = Instant::now();
        let socket = from_address([3, 1], node.port);
        // A connection beyond the limit is refused, or waits: hence the timeout.
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        held.push(socket.try_clone().unwrap());
        if let Ok(mut raw_client) = RawClient::over(&node, socket) {
            let login = raw_client.login();
            raw_client.send(&login);
            admitted += usize::from(raw_client.link.exchange(Duration::from_secs(1)).is_ok());
            sessions.push(raw_client);
        }
        // The limit is reached, and the holders must not time out before other clients have asked.
        if began.elapsed() > Duration::from_secs(5) {
            break;
        }
    }
    assert!(admitted > 10, "only {admitted} sessions were admitted");
    let began = Instant::now();
    for last in 1..6 {
        let mut raw = Raw::over(from_address([4, last], node.port));
        assert_eq!(raw.ask("GET", "/data/f", &[], &[]).body, b"x", "beside {admitted} sessions");
        let mut raw_client = RawClient::over(&node, from_address([4, last], node.port)).unwrap();
        raw_client.log_in(None).unwrap();
    }
    // Before the holders time out.
    assert!(began.elapsed() < Duration::from_secs(15), "others waited {:?}", began.elapsed());
    // A copy needs descriptors of its own: for files and for streams.
    let client = Client::new();
    client.write("t/a", b"a");
    client.run(words!["cp", "-r", client.path("t"), node.at("data/t")]).expect(0);
    assert_eq!(fs::read(node.data("t/a")).unwrap(), b"a");
    drop((held, sessions));
    until("the descriptors are given back", LONG, || node.descriptors() < 40);
}
