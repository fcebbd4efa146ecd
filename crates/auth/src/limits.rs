//! Bounds on everything that a stranger, or an operator's editor, can hand in.

/// A token. Real ones have 1 to 2 KB; a header line of HTTP takes 16 KiB at most.
pub const TOKEN_BYTES: usize = 16 * 1024;
/// A set of public keys. The largest seen has 8 keys with certificates in 20 KB.
pub const JWKS_BYTES: usize = 256 * 1024;
/// Keys in a set.
pub const JWKS_KEYS: usize = 64;
/// A macaroon, as text.
pub const MACAROON_BYTES: usize = 8 * 1024;
/// Caveats of a macaroon.
pub const CAVEATS: usize = 64;
/// The body of a request for a macaroon, as in XrdMacaroons.
pub const REQUEST_BYTES: usize = 4096;
/// A policy.
pub const POLICY_BYTES: usize = 1024 * 1024;
/// A distinguished name.
pub const NAME_BYTES: usize = 4096;
/// Seconds that another machine's clock may be ahead of ours (WLCG profile 1.3: at the start of a token only).
pub const SKEW_SECONDS: i64 = 60;

/// A macaroon's packet says its length in four hexadecimal digits.
const _: () = assert!(MACAROON_BYTES <= 0xffff);
