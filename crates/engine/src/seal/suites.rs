//! The suites that this end offers and accepts: measured once in a process, when they are first needed.

use std::sync::OnceLock;
use std::time::Instant;

use auth::approved;
use wire::frame::Suite;

use super::record_key::RecordKey;

/// A suite comes before AES-128-GCM if it seals at least this many times as fast here. Less is not worth another cipher.
const WORTHWHILE: f64 = 1.5;
/// Bytes that are sealed at once for the measurement: they stay in the second-level cache, as those of records do.
const PIECE_BYTES: usize = 128 << 10;
/// Each suite seals so many pieces, and the fastest one counts: the first ones bring up the cache and the clock of the processor. Where the
/// processor has AES, all suites together take half a millisecond.
const PIECES: usize = 4;

/// The suites that are worthwhile on this processor, the fastest first. AES-128-GCM is always the last of them, and the only one where
/// this process is restricted to approved ciphers.
pub fn suites() -> &'static [Suite] {
    static MEASURED: OnceLock<Vec<Suite>> = OnceLock::new();
    if approved::is_restricted() {
        return &[Suite::Aes128Gcm];
    }
    MEASURED.get_or_init(|| {
        let mut candidates = vec![Suite::ChaCha20Poly1305];
        candidates.extend(has_aes().then_some(Suite::Aegis128L));
        let mut piece = vec![0; PIECE_BYTES];
        let measured: Vec<(Suite, f64)> =
            candidates.into_iter().map(|suite| (suite, seconds(suite, &mut piece))).collect();
        chosen(seconds(Suite::Aes128Gcm, &mut piece), measured)
    })
}

/// Whether a node seals by a suite that a client prefers: where it is worthwhile here, too, or the client's processor has no AES. The end
/// that needs the most time decides.
pub fn is_accepted(suite: Suite) -> bool {
    match suite {
        Suite::ChaCha20Poly1305 => !approved::is_restricted(),
        _ => suites().contains(&suite),
    }
}

/// Why a mover must not seal by a suite that its coordinator has chosen; none if it may. In software AEGIS looks up tables, whose addresses
/// depend on the key: an attacker on the same host could observe that.
pub fn objection(suite: Suite) -> Option<&'static str> {
    if suite != Suite::Aes128Gcm && approved::is_restricted() {
        return Some(
            "the coordinator seals by a cipher that --fips of this mover excludes; set --fips at both, or at neither",
        );
    }
    let lacks_aes = suite == Suite::Aegis128L && !has_aes();
    lacks_aes
        .then_some("the coordinator seals by AEGIS-128L, and the processor of this mover has no instructions for AES")
}

/// The suites that are worthwhile by the seconds that each needs for a piece, the fastest first, and AES-128-GCM after them.
fn chosen(aes_s: f64, mut others: Vec<(Suite, f64)>) -> Vec<Suite> {
    others.retain(|(_, seconds)| aes_s >= seconds * WORTHWHILE);
    others.sort_by(|a, b| a.1.total_cmp(&b.1));
    others.into_iter().map(|(suite, _)| suite).chain([Suite::Aes128Gcm]).collect()
}

/// The least seconds in which a suite seals a piece.
fn seconds(suite: Suite, piece: &mut [u8]) -> f64 {
    let Some(key) = RecordKey::new(suite, &[0; 32]) else { return f64::INFINITY };
    let once = |number: usize| {
        let began = Instant::now();
        let sealed = key.seal(number as u64, &[], piece);
        if sealed.is_ok() { began.elapsed().as_secs_f64() } else { f64::INFINITY }
    };
    (0..PIECES).map(once).fold(f64::INFINITY, f64::min)
}

/// Whether the processor has instructions for AES that the library for AEGIS uses.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("avx");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_must_be_clearly_faster_than_aes_gcm() {
        let chosen = |aegis, chacha| chosen(3.0, vec![(Suite::ChaCha20Poly1305, chacha), (Suite::Aegis128L, aegis)]);
        assert_eq!(chosen(1.0, 6.0), [Suite::Aegis128L, Suite::Aes128Gcm], "a processor with AES");
        assert_eq!(chosen(f64::INFINITY, 1.0), [Suite::ChaCha20Poly1305, Suite::Aes128Gcm], "one without");
        assert_eq!(chosen(1.0, 1.5), [Suite::Aegis128L, Suite::ChaCha20Poly1305, Suite::Aes128Gcm]);
        assert_eq!(chosen(2.1, 6.0), [Suite::Aes128Gcm], "not by enough");
    }

    #[test]
    fn aes_gcm_is_always_accepted() {
        assert!(suites().contains(&Suite::Aes128Gcm) && is_accepted(Suite::Aes128Gcm));
        assert!(is_accepted(Suite::ChaCha20Poly1305), "of a client whose processor has no AES");
        assert!(has_aes() || !is_accepted(Suite::Aegis128L));
        assert_eq!(objection(Suite::Aegis128L).is_none(), has_aes());
    }
}
