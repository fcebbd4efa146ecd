//! The cases, client by client; the order here is that of the table.

mod curl_auth;
mod curl_dav;
mod curl_digests;
mod curl_macaroons;
mod curl_read;
mod curl_write;
mod davix;
mod gfal;
mod gfal_copy;
mod longhaul_root;
mod python;
mod rclone;
mod root;
mod root_fronts;
mod root_movers;
mod third_party;
mod third_party_errors;
mod webdav;
mod xrdcp;

use crate::case::Case;

/// Bytes whose digests are known.
const NINE: &[u8] = b"123456789";
/// Bytes from which ranges are taken.
const FORTY: &[u8] = b"0123456789abcdefghijABCDEFGHIJ!#$%&()*+,";

/// All cases.
pub fn all() -> Vec<Case> {
    [
        curl_read::CASES,
        curl_write::CASES,
        curl_dav::CASES,
        curl_digests::CASES,
        curl_auth::CASES,
        curl_macaroons::CASES,
        davix::CASES,
        gfal::CASES,
        gfal_copy::CASES,
        rclone::CASES,
        xrdcp::CASES,
        root::CASES,
        longhaul_root::CASES,
        root_fronts::CASES,
        root_movers::CASES,
        webdav::CASES,
        python::CASES,
        third_party::CASES,
        third_party_errors::CASES,
        &crate::fts::all(),
        crate::catalogue::CASES,
    ]
    .concat()
}

/// Bytes in which no block repeats.
pub fn pattern(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ bytes as u64;
    // One block is computed and copied, with its number in front: this is compiled without optimisation.
    let mut block = Vec::with_capacity(4096);
    while block.len() < 4096 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        block.extend_from_slice(&state.to_le_bytes());
    }
    let mut out = Vec::with_capacity(bytes + block.len());
    while out.len() < bytes {
        let (at, number) = (out.len(), state.wrapping_add(out.len() as u64));
        out.extend_from_slice(&block);
        out[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    out.truncate(bytes);
    out
}
