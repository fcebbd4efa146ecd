//! What a copy does where its command line is silent, and how a limit and checksums are read: the command line and the
//! configuration say them in the same words.

use model::Algorithm;
use model::units::BitRate;

/// What a copy does unless its command line says otherwise.
#[derive(Clone, Debug, Default)]
pub struct CopyDefaults {
    /// The most to send.
    pub limit: Option<BitRate>,
    /// Payload in clear, where the node allows it.
    pub plain: bool,
    /// Digests of whole files.
    pub checksum: Option<Checksums>,
}

/// A limit; 0 for none.
pub fn limit(text: &str) -> Result<BitRate, String> {
    if text == "none" { Ok(BitRate(0)) } else { text.parse().map_err(|e: model::units::UnitError| e.to_string()) }
}

/// The checksums of a job; empty for none.
#[derive(Debug, Clone)]
pub struct Checksums(pub Vec<Algorithm>);

/// Reads what stands behind `--checksum`.
pub fn checksums(text: &str) -> Result<Checksums, String> {
    if text == "none" {
        return Ok(Checksums(Vec::new()));
    }
    let mut list: Vec<Algorithm> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    // Blocks are always guarded by CRC32C, so its digest of the whole comes for nothing.
    if !list.contains(&Algorithm::Crc32c) {
        list.insert(0, Algorithm::Crc32c);
    }
    list.dedup();
    Ok(Checksums(list))
}
