//! Checksums by name. With two of them, CRC32C and Adler-32, the value of a file follows from the values of its parts, and no byte is
//! read twice.
//!
//! CRC32C guards every block. The CRC of a whole follows from those of its parts: over GF(2),
//! `crc(a ++ b) = crc(a) * x^(8*len(b)) + crc(b)`, so a file digest costs one polynomial multiplication per block
//! (about 50 ns) and no second read. Adler-32 has a similar law (RFC 1950, section 9). The others are serial: they
//! must see a file in order, which keeps it on one stream.

use std::fmt;
use std::str::FromStr;

/// A checksum by its common name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// CRC-32C (Castagnoli), RFC 3720.
    Crc32c,
    /// Adler-32, RFC 1950.
    Adler32,
    /// MD5, RFC 1321; for comparison with old catalogues, not for security.
    Md5,
    /// SHA-256, FIPS 180-4.
    Sha256,
    /// BLAKE3.
    Blake3,
    /// SHA-1, FIPS 180-4; like MD5 for other people's catalogues and clients, not for security.
    Sha1,
    /// SHA-512, FIPS 180-4.
    Sha512,
}

impl Algorithm {
    /// All algorithms, in the order of help texts.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::Crc32c,
        Algorithm::Adler32,
        Algorithm::Md5,
        Algorithm::Sha256,
        Algorithm::Blake3,
        Algorithm::Sha1,
        Algorithm::Sha512,
    ];

    /// The name on command lines and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32c => "crc32c",
            Algorithm::Adler32 => "adler32",
            Algorithm::Md5 => "md5",
            Algorithm::Sha256 => "sha256",
            Algorithm::Blake3 => "blake3",
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha512 => "sha512",
        }
    }

    /// The number that stands for it on the wire.
    pub fn code(self) -> u8 {
        match self {
            Algorithm::Crc32c => 1,
            Algorithm::Adler32 => 2,
            Algorithm::Md5 => 3,
            Algorithm::Sha256 => 4,
            Algorithm::Blake3 => 5,
            Algorithm::Sha1 => 6,
            Algorithm::Sha512 => 7,
        }
    }

    /// The algorithm for a number from the wire.
    pub fn from_code(code: u8) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|a| a.code() == code)
    }

    /// Length of the value, bytes.
    pub fn value_bytes(self) -> usize {
        match self {
            Algorithm::Crc32c | Algorithm::Adler32 => 4,
            Algorithm::Md5 => 16,
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 | Algorithm::Blake3 => 32,
            Algorithm::Sha512 => VALUE_BYTES_MAX,
        }
    }

    /// Whether it must see a file in order, which keeps the file on one stream.
    pub fn is_serial(self) -> bool {
        !matches!(self, Algorithm::Crc32c | Algorithm::Adler32)
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Algorithm::ALL.map(Algorithm::name).join(", ");
        let wanted = text.to_ascii_lowercase().replace('-', "");
        Algorithm::ALL
            .into_iter()
            .find(|a| a.name() == wanted)
            .ok_or_else(|| format!("{text:?} is not a checksum this program knows; it knows {known}"))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The longest value, bytes.
const VALUE_BYTES_MAX: usize = 64;

/// A checksum's value, big-endian as people print it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    value: [u8; VALUE_BYTES_MAX],
}

impl Digest {
    /// A digest from its bytes; none where the length does not fit the algorithm.
    pub fn new(algorithm: Algorithm, bytes: &[u8]) -> Option<Digest> {
        (bytes.len() == algorithm.value_bytes()).then(|| {
            let mut value = [0; VALUE_BYTES_MAX];
            value[..bytes.len()].copy_from_slice(bytes);
            Digest { algorithm, value }
        })
    }

    /// A CRC-32C as a digest.
    pub fn crc32c(value: u32) -> Digest {
        let mut bytes = [0; VALUE_BYTES_MAX];
        bytes[..4].copy_from_slice(&value.to_be_bytes());
        Digest { algorithm: Algorithm::Crc32c, value: bytes }
    }

    /// Which checksum this is.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The value's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.value[..self.algorithm.value_bytes()]
    }

    /// The value in lower-case hexadecimal.
    pub fn hex(&self) -> String {
        self.bytes().iter().map(|b| format!("{b:02x}")).collect()
    }
}

impl FromStr for Digest {
    type Err = String;

    /// `ALGORITHM:VALUE` in hexadecimal of either case; leading zeros may be missing, because some catalogues leave them out.
    fn from_str(text: &str) -> Result<Digest, String> {
        let (name, value) = text.split_once(':').ok_or("a checksum is ALGORITHM:VALUE")?;
        let algorithm: Algorithm = name.to_ascii_lowercase().parse()?;
        let digits = algorithm.value_bytes() * 2;
        let is_hex = !value.is_empty() && value.len() <= digits && value.bytes().all(|b| b.is_ascii_hexdigit());
        let bytes = is_hex.then(|| crate::hex::decode(&format!("{value:0>digits$}").to_ascii_lowercase())).flatten();
        let digest = bytes.and_then(|bytes| Digest::new(algorithm, &bytes));
        digest.ok_or_else(|| format!("{algorithm} has up to {digits} hexadecimal digits"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// CRC-32C of bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The reflected CRC-32C polynomial (RFC 3720).
const POLY: u32 = 0x82f6_3b78;

/// `x^(2^n)` modulo the polynomial, for n = 0 to 66: enough for any length in bytes below 2^64.
const POWERS: [u32; 67] = {
    let mut table = [0u32; 67];
    table[0] = 1 << 30; // x^1: in the reflected order, bit 31 is x^0
    let mut n = 1;
    while n < 67 {
        table[n] = multiply(table[n - 1], table[n - 1]);
        n += 1;
    }
    table
};

/// Product of two polynomials modulo the CRC polynomial, reflected.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 1u32 << 31;
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 != 0 { (b >> 1) ^ POLY } else { b >> 1 };
        bit >>= 1;
    }
    product
}

/// `x^(8 * bytes)` modulo the polynomial.
fn shift(bytes: u64) -> u32 {
    let mut power = 1u32 << 31; // x^0
    for n in (0..64).filter(|n| bytes >> n & 1 == 1) {
        power = multiply(POWERS[n + 3], power);
    }
    power
}

/// The CRC-32C of `a ++ b` from those of `a` and `b` and the length of `b`.
pub fn crc32c_combine(crc_a: u32, crc_b: u32, len_b: u64) -> u32 {
    multiply(shift(len_b), crc_a) ^ crc_b
}

/// The CRC-32C of `len` zero bytes, without touching any: a hole of a sparse file.
pub fn crc32c_zeros(len: u64) -> u32 {
    // Conditioning inverts before and after: crc(zeros) = shift(len) * 0xffffffff ^ 0xffffffff.
    multiply(shift(len), u32::MAX) ^ u32::MAX
}

/// Largest prime below 2^16 (RFC 1950).
const ADLER_BASE: u64 = 65_521;

/// Adler-32 of bytes.
pub fn adler32(bytes: &[u8]) -> u32 {
    simd_adler32::adler32(&bytes)
}

/// The Adler-32 of `a ++ b` from those of `a` and `b` and the length of `b`.
pub fn adler32_combine(a: u32, b: u32, len_b: u64) -> u32 {
    let (a_low, a_high) = (u64::from(a & 0xffff), u64::from(a >> 16));
    let (b_low, b_high) = (u64::from(b & 0xffff), u64::from(b >> 16));
    let low = (a_low + b_low + ADLER_BASE - 1) % ADLER_BASE;
    // Every byte of b adds a's low sum once more; the 1 that b's own sum began with is subtracted.
    let shifted = (len_b % ADLER_BASE) * (a_low + ADLER_BASE - 1) % ADLER_BASE;
    let high = (a_high + b_high + shifted) % ADLER_BASE;
    (high << 16 | low) as u32
}

/// The Adler-32 of `len` zero bytes.
pub fn adler32_zeros(len: u64) -> u32 {
    ((len % ADLER_BASE) << 16 | 1) as u32
}

/// The checksums of a block that can be combined into those of a file: CRC-32C always, Adler-32 where the job wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSum {
    /// CRC-32C.
    pub crc32c: u32,
    /// Adler-32, if the job wants it.
    pub adler32: Option<u32>,
}

impl BlockSum {
    /// The checksums of bytes in memory.
    pub fn of(bytes: &[u8], with_adler32: bool) -> BlockSum {
        BlockSum { crc32c: crc32c(bytes), adler32: with_adler32.then(|| adler32(bytes)) }
    }

    /// The checksums of `len` zero bytes, without reading any.
    pub fn of_zeros(len: u64, with_adler32: bool) -> BlockSum {
        BlockSum { crc32c: crc32c_zeros(len), adler32: with_adler32.then(|| adler32_zeros(len)) }
    }

    /// The checksums of this block followed by `next`, which has `len` bytes.
    pub fn then(self, next: BlockSum, len: u64) -> BlockSum {
        BlockSum {
            crc32c: crc32c_combine(self.crc32c, next.crc32c, len),
            adler32: self.adler32.zip(next.adler32).map(|(a, b)| adler32_combine(a, b, len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn crc32c_gives_the_values_of_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn a_digest_is_read_as_it_is_shown_and_as_catalogues_write_it() {
        let digest = Digest::new(Algorithm::Adler32, &[0, 0xab, 1, 2]).unwrap();
        for text in ["adler32:00ab0102", "ADLER32:AB0102", &digest.to_string()] {
            assert_eq!(text.parse(), Ok(digest), "{text}");
        }
        for wrong in ["adler32", "adler32:", "adler32:xyz", "adler32:123456789", "crc7:00", "adler32:+1", ":00"] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn checksums_of_zeros_are_computed_without_reading_them() {
        for len in [0usize, 1, 7, 32, 4096, 1 << 20] {
            assert_eq!(BlockSum::of_zeros(len as u64, true), BlockSum::of(&vec![0; len], true), "{len}");
        }
        // For lengths that do not fit in memory, two halves are combined instead of reading the zeros.
        let half = crc32c_zeros(1 << 43);
        assert_eq!(crc32c_combine(half, half, 1 << 43), crc32c_zeros(1 << 44));
    }

    proptest! {
        #[test]
        fn checksums_of_parts_combine_to_that_of_the_whole(a in proptest::collection::vec(any::<u8>(), 0..3000),
                                                           b in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let whole = crc32c(&[&a[..], &b[..]].concat());
            prop_assert_eq!(crc32c_combine(crc32c(&a), crc32c(&b), b.len() as u64), whole);
            let parts = BlockSum::of(&a, true).then(BlockSum::of(&b, true), b.len() as u64);
            prop_assert_eq!(parts, BlockSum::of(&[&a[..], &b[..]].concat(), true));
        }
    }

    #[test]
    fn the_name_and_the_number_of_an_algorithm_are_read_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
            assert_eq!(Algorithm::from_code(algorithm.code()), Some(algorithm));
        }
        assert_eq!("SHA-256".parse(), Ok(Algorithm::Sha256));
        assert!("sha3".parse::<Algorithm>().is_err());
    }
}
