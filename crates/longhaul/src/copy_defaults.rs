//! The defaults of a copy, and the parsers of a limit and of checksums, which the command line and the configuration share.

use model::Algorithm;
use model::units::BitRate;

/// The defaults of a copy; its command line overrides them.
#[derive(Clone, Debug, Default)]
pub struct CopyDefaults {
    /// The greatest rate of payload.
    pub limit: Option<BitRate>,
    /// Whether payload goes unencrypted, where the node allows it.
    pub plain: bool,
    /// Digests of whole files.
    pub checksum: Option<Checksums>,
}

/// Parses the value of `--limit`; 0 stands for no limit.
///
/// # Errors
/// The text is not a rate.
pub fn limit(text: &str) -> Result<BitRate, String> {
    if text == "none" { Ok(BitRate(0)) } else { text.parse().map_err(|e: model::units::UnitError| e.to_string()) }
}

/// The checksums of a job; empty for none.
#[derive(Debug, Clone)]
pub struct Checksums(pub Vec<Algorithm>);

/// Parses the value of `--checksum`.
///
/// # Errors
/// The text names an unknown algorithm.
pub fn checksums(text: &str) -> Result<Checksums, String> {
    if text == "none" {
        return Ok(Checksums(Vec::new()));
    }
    let mut list: Vec<Algorithm> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    // Every block has a CRC32C, so that the CRC32C of the whole file costs nothing.
    if !list.contains(&Algorithm::Crc32c) {
        list.insert(0, Algorithm::Crc32c);
    }
    list.dedup();
    Ok(Checksums(list))
}
