//! Bounds on all input of peers and operators: the most bytes of an item, and the most items.

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
/// Certificates in a chain that a client shows. Proxies of proxies have four or five.
pub const CHAIN_CERTIFICATES: usize = 20;
/// A certificate in such a chain. Proxies with the attributes of several organisations have some 20 KB.
pub const CERTIFICATE_BYTES: usize = 128 * 1024;
/// Proxies in a chain.
pub const PROXIES: usize = 10;
/// Attribute certificates in a proxy.
pub const ATTRIBUTE_CERTIFICATES: usize = 16;
/// Attributes (fully qualified attribute names) in one attribute certificate.
pub const FQANS: usize = 512;
/// One of these attributes.
pub const FQAN_BYTES: usize = 512;
/// A file that names VOMS servers.
pub const LSC_BYTES: usize = 64 * 1024;
/// VOMS servers.
pub const VOMS_SERVERS: usize = 4096;
/// A list of revoked certificates. The largest of the grid's authorities have a few megabytes.
pub const REVOCATION_LIST_BYTES: usize = 64 * 1024 * 1024;
/// Lists of revoked certificates. The grid has some 100 authorities.
pub const REVOCATION_LISTS: usize = 4096;
/// A file with signing policies.
pub const SIGNING_POLICY_BYTES: usize = 64 * 1024;
/// Signing policies.
pub const SIGNING_POLICIES: usize = 4096;
/// Seconds that another machine's clock may be ahead of ours (WLCG profile 1.3: at the start of a token only; the same for
/// proxies and their attributes).
pub const SKEW_SECONDS: i64 = 60;

/// A macaroon's packet says its length in four hexadecimal digits.
const _: () = assert!(MACAROON_BYTES <= 0xffff);
/// A chain has room for the most proxies and the end-entity that they belong to.
const _: () = assert!(PROXIES < CHAIN_CERTIFICATES);
