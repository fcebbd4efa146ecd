//! A scenario in a test: a program of one's own between two sites that are 303 ms apart, on one machine.
//!
//! Needs root, and says so where it has none. What else a scenario may say is in docs/lab.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

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

/// Connecting takes one round trip, which no processor shortens.
fn connecting_takes(lab: &Lab) -> Duration {
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
    let Some(lab) = lab::rig::up("a_connection_takes_the_round_trip_of_the_scenario", SCENARIO) else { return };
    let far = connecting_takes(&lab);
    assert!(far >= Duration::from_millis(303), "{far:?}");

    lab.set("canberra-paris", &[("rtt", "1s")]).unwrap();
    let farther = connecting_takes(&lab);
    assert!(farther >= Duration::from_secs(1), "{farther:?}");
}
