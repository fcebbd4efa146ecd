//! Digests of files: those that must see every byte in order, and whole-file digests for `longhaul digest`.

use blake3::Hasher as Blake3;
use md5::Digest as _;
use md5::Md5;
use model::checksum::{BlockSum, Digest};
use model::{Algorithm, RelPath};
use sha1::Sha1;
use sha2::{Sha256, Sha512};

use crate::{Extent, Result, Source};

/// One serial digest in progress.
enum SerialDigest {
    Md5(Md5),
    Sha256(Sha256),
    Blake3(Box<Blake3>),
    Sha1(Sha1),
    Sha512(Box<Sha512>),
}

impl SerialDigest {
    fn new(algorithm: Algorithm) -> Option<SerialDigest> {
        match algorithm {
            Algorithm::Md5 => Some(SerialDigest::Md5(Md5::new())),
            Algorithm::Sha256 => Some(SerialDigest::Sha256(Sha256::new())),
            Algorithm::Blake3 => Some(SerialDigest::Blake3(Box::default())),
            Algorithm::Sha1 => Some(SerialDigest::Sha1(Sha1::new())),
            Algorithm::Sha512 => Some(SerialDigest::Sha512(Box::default())),
            Algorithm::Crc32c | Algorithm::Adler32 => None,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            SerialDigest::Md5(h) => h.update(bytes),
            SerialDigest::Sha256(h) => h.update(bytes),
            SerialDigest::Sha1(h) => h.update(bytes),
            SerialDigest::Sha512(h) => h.update(bytes),
            SerialDigest::Blake3(h) => {
                h.update(bytes);
            }
        }
    }

    fn finish(self) -> Option<Digest> {
        match self {
            SerialDigest::Md5(h) => Digest::new(Algorithm::Md5, &h.finalize()),
            SerialDigest::Sha256(h) => Digest::new(Algorithm::Sha256, &h.finalize()),
            SerialDigest::Blake3(h) => Digest::new(Algorithm::Blake3, h.finalize().as_bytes()),
            SerialDigest::Sha1(h) => Digest::new(Algorithm::Sha1, &h.finalize()),
            SerialDigest::Sha512(h) => Digest::new(Algorithm::Sha512, &h.finalize()),
        }
    }
}

/// All serial digests of one file, computed while its blocks are sent or received. A block that comes out of order leaves a gap;
/// then there are no digests, and the file must be read.
#[derive(Default)]
pub struct SerialDigests {
    serial: Vec<SerialDigest>,
    next: u64,
    broken: bool,
}

impl std::fmt::Debug for SerialDigests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SerialDigests").field("next", &self.next).field("broken", &self.broken).finish_non_exhaustive()
    }
}

/// The zeros that a hole consists of.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

impl SerialDigests {
    /// Starts the digests of the serial ones among `algorithms`.
    pub fn new(algorithms: &[Algorithm]) -> SerialDigests {
        SerialDigests {
            serial: algorithms.iter().filter_map(|a| SerialDigest::new(*a)).collect(),
            next: 0,
            broken: false,
        }
    }

    /// Adds the bytes at `offset`. Bytes that were added before are ignored.
    pub fn feed(&mut self, offset: u64, bytes: &[u8]) {
        self.broken |= offset > self.next;
        if offset != self.next || self.serial.is_empty() {
            return;
        }
        self.serial.iter_mut().for_each(|s| s.update(bytes));
        self.next += bytes.len() as u64;
    }

    /// Adds a hole of `len` bytes at `offset`.
    pub fn feed_hole(&mut self, offset: u64, mut len: u64) {
        let mut at = offset;
        while len > 0 && !self.serial.is_empty() {
            let step = len.min(ZEROS.len() as u64);
            self.feed(at, &ZEROS[..step as usize]);
            at += step;
            len -= step;
        }
    }

    /// The digests, if every byte up to `size` came in order.
    pub fn finish(self, size: u64) -> Option<Vec<Digest>> {
        if self.serial.is_empty() {
            return Some(Vec::new());
        }
        (!self.broken && self.next == size).then(|| self.serial.into_iter().filter_map(SerialDigest::finish).collect())
    }
}

/// Bytes of a hole between two calls of `is_wanted`.
const HOLE_BYTES: u64 = 64 << 20;

/// Digests of a whole file, read once. Holes are not read.
///
/// # Errors
/// The file cannot be read.
pub fn of_file(source: &dyn Source, path: &RelPath, algorithms: &[Algorithm]) -> Result<Vec<Digest>> {
    Ok(of_file_while(source, path, algorithms, &|| true)?.unwrap_or_default())
}

/// Digests of a file of `size` bytes that is still being written. It may be shorter now: the rest is a hole.
///
/// # Errors
/// The file cannot be read.
pub fn of_unfinished(source: &dyn Source, path: &RelPath, algorithms: &[Algorithm], size: u64) -> Result<Vec<Digest>> {
    let present = source.stat()?.meta.size.min(size);
    Ok(of_length(source, path, algorithms, DigestedLength { present, total: size }, &|| true)?.unwrap_or_default())
}

/// As [`of_file`], as long as `is_wanted`, which is called regularly, returns `true`. `None` once it returns `false`.
///
/// # Errors
/// The file cannot be read.
pub fn of_file_while(
    source: &dyn Source,
    path: &RelPath,
    algorithms: &[Algorithm],
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<Vec<Digest>>> {
    let size = source.stat()?.meta.size;
    of_length(source, path, algorithms, DigestedLength { present: size, total: size }, is_wanted)
}

/// The length of a file, bytes: `present` can be read now, zeros follow up to `total`.
struct DigestedLength {
    present: u64,
    total: u64,
}

fn of_length(
    source: &dyn Source,
    path: &RelPath,
    algorithms: &[Algorithm],
    length: DigestedLength,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<Vec<Digest>>> {
    let with_adler32 = algorithms.contains(&Algorithm::Adler32);
    let mut serial = SerialDigests::new(algorithms);
    let mut sum = BlockSum::of(&[], with_adler32);
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < length.total {
        if at > 0 && !is_wanted() {
            return Ok(None);
        }
        let extent = if at < length.present { source.extent(at, length.present)? } else { Extent::Hole(length.total) };
        match extent {
            Extent::Hole(end) => {
                // A hole takes time too, because serial digests must see each of its bytes.
                let end = end.min(at + HOLE_BYTES);
                sum = sum.then(BlockSum::of_zeros(end - at, with_adler32), end - at);
                serial.feed_hole(at, end - at);
                at = end;
            }
            Extent::Data(end) => {
                let want = (end - at).min(buffer.len() as u64) as usize;
                let got = source.read_at(&mut buffer[..want], at)?;
                if got == 0 {
                    let error = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "it became shorter meanwhile");
                    return Err(crate::Error::io("read", path, error));
                }
                sum = sum.then(BlockSum::of(&buffer[..got], with_adler32), got as u64);
                serial.feed(at, &buffer[..got]);
                at += got as u64;
            }
        }
    }
    let mut digests = serial.finish(length.total).unwrap_or_default();
    for algorithm in algorithms {
        match (algorithm, sum.adler32) {
            (Algorithm::Crc32c, _) => digests.push(Digest::crc32c(sum.crc32c)),
            (Algorithm::Adler32, Some(adler)) => digests.extend(Digest::new(*algorithm, &adler.to_be_bytes())),
            _ => {}
        }
    }
    digests.sort_by_key(|d| algorithms.iter().position(|a| *a == d.algorithm()));
    Ok(Some(digests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_digests_of_abc_are_the_published_ones() {
        let mut all = SerialDigests::new(&Algorithm::ALL);
        all.feed(0, b"a");
        all.feed(1, b"bc");
        all.feed(0, b"seen before");
        let hex: Vec<String> = all.finish(3).unwrap().iter().map(|d| d.to_string()).collect();
        assert_eq!(
            hex,
            [
                "md5:900150983cd24fb0d6963f7d28e17f72",
                "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
                "sha1:a9993e364706816aba3e25717850c26c9cd0d89d",
                concat!(
                    "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a",
                    "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
                ),
            ]
        );
    }

    #[test]
    fn a_gap_gives_no_digests() {
        let mut md5 = SerialDigests::new(&[Algorithm::Md5]);
        md5.feed(0, b"ab");
        md5.feed(5, b"fg");
        md5.feed(2, b"cde");
        assert_eq!(md5.finish(7), None);
        let mut short = SerialDigests::new(&[Algorithm::Md5]);
        short.feed(0, b"ab");
        assert_eq!(short.finish(3), None);
    }

    #[test]
    fn holes_are_zeros() {
        let mut hole = SerialDigests::new(&[Algorithm::Sha256]);
        hole.feed_hole(0, 200_000);
        let mut zeros = SerialDigests::new(&[Algorithm::Sha256]);
        zeros.feed(0, &vec![0; 200_000]);
        assert_eq!(hole.finish(200_000), zeros.finish(200_000));
    }
}
