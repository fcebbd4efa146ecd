//! A whole file, read once for its digests, as long as there is a client that waits for them.

use model::checksum::{BlockSum, Digest};
use model::{Algorithm, RelPath};
use store::digest::InOrder;
use store::{Error, Extent, Source};

use super::hung_up;
use crate::http::refused::Outcome;

/// Bytes read between two looks at the client.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of a hole that pass between two.
const HOLE_BYTES: u64 = 64 << 20;

/// Digests of a file. Holes are not read.
pub(super) fn digests(
    source: &dyn Source,
    path: &RelPath,
    wanted: &[Algorithm],
    is_gone: &dyn Fn() -> bool,
) -> Outcome<Vec<Digest>> {
    let size = source.stat()?.meta.size;
    let with_adler32 = wanted.contains(&Algorithm::Adler32);
    let (mut serial, mut sum) = (InOrder::new(wanted), BlockSum::of(&[], with_adler32));
    let mut buffer = vec![0; PIECE_BYTES.min(usize::try_from(size).unwrap_or(PIECE_BYTES))];
    let mut at = 0;
    while at < size {
        if at > 0 && is_gone() {
            return Err(hung_up());
        }
        match source.extent(at, size)? {
            Extent::Hole(end) => {
                sum = sum.then(BlockSum::of_zeros(end - at, with_adler32), end - at);
                // A hole takes time as well, where every byte has to pass.
                let mut hole = at;
                while hole < end {
                    let step = (end - hole).min(HOLE_BYTES);
                    serial.feed_hole(hole, step);
                    hole += step;
                    if is_gone() {
                        return Err(hung_up());
                    }
                }
                at = end;
            }
            Extent::Data(end) => {
                let most = (end - at).min(buffer.len() as u64) as usize;
                let got = source.read_at(&mut buffer[..most], at)?;
                if got == 0 {
                    let error = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "it became shorter meanwhile");
                    return Err(Error::io("read", path, error).into());
                }
                sum = sum.then(BlockSum::of(&buffer[..got], with_adler32), got as u64);
                serial.feed(at, &buffer[..got]);
                at += got as u64;
            }
        }
    }
    let mut made = serial.finish(size).unwrap_or_default();
    made.extend(wanted.contains(&Algorithm::Crc32c).then(|| Digest::crc32c(sum.crc32c)));
    made.extend(sum.adler32.and_then(|adler| Digest::new(Algorithm::Adler32, &adler.to_be_bytes())));
    Ok(made)
}
