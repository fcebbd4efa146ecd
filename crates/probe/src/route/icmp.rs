//! The meaning of ICMP types and codes for a probe (RFC 792, RFC 1812 section 5.2.7.1, RFC 4443).

use model::v1::probe::route::RouterReply;

/// The meaning of an ICMP error.
pub fn meaning(is_v4: bool, kind: u8, code: u8) -> RouterReply {
    match (is_v4, kind, code) {
        (true, 11, 0) | (false, 3, 0) => RouterReply::TimeExceeded,
        (true, 3, 3) | (false, 1, 4) => RouterReply::PortUnreachable,
        // Unknown, isolated, or not for this type of service.
        (true, 3, 0 | 6 | 8 | 11) | (false, 1, 0) => RouterReply::NetworkUnreachable,
        (true, 3, 1 | 7 | 12) | (false, 1, 2 | 3) => RouterReply::HostUnreachable,
        (true, 3, 2) | (false, 4, 1) => RouterReply::ProtocolUnreachable,
        // The exact reason does not matter: network, host, communication, precedence; policy, reject route.
        (true, 3, 9 | 10 | 13..=15) | (false, 1, 1 | 5 | 6) => RouterReply::AdminProhibited,
        (true, 3, 4) | (false, 2, 0) => RouterReply::TooBig,
        _ => RouterReply::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_codes_have_their_meaning() {
        let v4 = [(11, 0), (3, 3), (3, 0), (3, 1), (3, 2), (3, 13), (3, 4), (11, 1), (12, 0)]
            .map(|(k, c)| meaning(true, k, c));
        let v6 =
            [(3, 0), (1, 4), (1, 0), (1, 3), (4, 1), (1, 1), (2, 0), (3, 1), (4, 0)].map(|(k, c)| meaning(false, k, c));
        assert_eq!(v4, v6);
        use RouterReply::*;
        let wanted = [
            TimeExceeded,
            PortUnreachable,
            NetworkUnreachable,
            HostUnreachable,
            ProtocolUnreachable,
            AdminProhibited,
            TooBig,
            Other,
            Other,
        ];
        assert_eq!(v4, wanted);
    }
}
