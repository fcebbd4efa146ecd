//! A scenario in a test: a connection between two sites that are 303 ms apart, on one machine.
//!
//! Needs root; without root, the test is skipped and says so. docs/lab.md describes scenarios.

#![allow(clippy::unwrap_used, reason = "a test panics if it cannot go on")]

use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use lab::Lab;

const SCENARIO: &str = r#"
[site.canberra]
[site.paris]

[path.canberra-paris]
rtt = "303ms"
rate = "1Gbit/s"
"#;

/// The time to connect from Canberra to Paris: at least one round trip.
fn connect_time(lab: &Lab) -> Duration {
    let paris = lab.site("paris").unwrap();
    let address: IpAddr = paris_address(lab);
    let listener = paris.within(|| TcpListener::bind((address, 0))).unwrap().unwrap();
    let target = listener.local_addr().unwrap();
    let began = Instant::now();
    lab.site("canberra").unwrap().within(|| TcpStream::connect(target)).unwrap().unwrap();
    began.elapsed()
}

fn paris_address(lab: &Lab) -> IpAddr {
    let scenario = lab.scenario();
    let site = &scenario.sites[scenario.site("paris").unwrap()];
    site.interfaces[0].v4.unwrap().0.into()
}

#[test]
fn a_connection_takes_the_round_trip_of_the_scenario() {
    let Some(lab) = lab::fixture::up("a_connection_takes_the_round_trip_of_the_scenario", SCENARIO) else { return };
    let time = connect_time(&lab);
    assert!(time >= Duration::from_millis(303), "{time:?}");

    lab.set("canberra-paris", &[("rtt", "1s")]).unwrap();
    let longer_time = connect_time(&lab);
    assert!(longer_time >= Duration::from_secs(1), "{longer_time:?}");
}
