//! The input of a server of TWAMP.

use super::message::{REQUEST, Request};

/// A request for a session. One that can be read is written, and read again unchanged.
pub fn twamp_request(bytes: &[u8]) {
    let mut octets = [0; REQUEST];
    let length = bytes.len().min(REQUEST);
    octets[..length].copy_from_slice(&bytes[..length]);
    if let Some(request) = Request::read(&octets) {
        let again = Request::read(&request.write());
        let is_of_one_version = request.sender.0.is_ipv4() == request.receiver.0.is_ipv4();
        assert!(is_of_one_version && again == Some(request), "{request:?}");
    }
}
