//! The files of a demo: observations, just large enough for their transfer to be seen.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The number of files of a night.
const NIGHT_FILES: u64 = 12;
/// The size of each file of a night.
const FILE_BYTES: usize = 24 << 20;
/// The number of small files in `catalogue`.
const SMALL_FILES: u64 = 2_000;

/// Writes the files of the sites into their exports.
///
/// # Errors
/// A file cannot be written.
pub fn make(geneva: &Path, amsterdam: &Path) -> io::Result<()> {
    let night = amsterdam.join("night");
    fs::create_dir_all(&night)?;
    for file in 0..NIGHT_FILES {
        fs::write(night.join(format!("visibilities-{file:02}.ms")), noise(FILE_BYTES, file))?;
    }
    let small = amsterdam.join("catalogue");
    fs::create_dir_all(&small)?;
    for file in 0..SMALL_FILES {
        fs::write(small.join(format!("source-{file:04}.json")), format!("{{\"source\": {file}}}\n"))?;
    }
    let field = geneva.join("field-7");
    fs::create_dir_all(&field)?;
    fs::write(field.join("README.txt"), "Field 7, observed for the demo.\nEverything here is noise.\n")?;
    fs::write(field.join("spectrum.dat"), noise(FILE_BYTES, 100))?;
    fits(&field.join("observation.fits"))?;
    fs::write(field.join("field.svg"), sky())?;
    fs::create_dir_all(geneva.join("inbox"))
}

/// Bytes that do not compress and do not repeat (splitmix64).
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    };
    (0..bytes / 8).flat_map(|_| word()).collect()
}

/// A FITS image of 256 × 256 (FITS standard 4.0).
fn fits(path: &Path) -> io::Result<()> {
    const SIDE: usize = 256;
    const BLOCK: usize = 2880;
    let cards = [
        "SIMPLE  =                    T / conforms to the FITS standard",
        "BITPIX  =                   16 / bits of a pixel",
        "NAXIS   =                    2 / axes",
        "NAXIS1  =                  256 / columns",
        "NAXIS2  =                  256 / rows",
        "OBJECT  = 'FIELD 7 '           / what was looked at",
        "TELESCOP= 'DEMO    '           / with what",
        "END",
    ];
    let mut head: String = cards.iter().map(|card| format!("{card:80}")).collect();
    head += &" ".repeat(BLOCK - head.len());
    let mut pixels = noise(SIDE * SIDE * 2, 7);
    pixels.resize(pixels.len().next_multiple_of(BLOCK), 0);
    let mut file = File::create(path)?;
    file.write_all(head.as_bytes())?;
    file.write_all(&pixels)
}

/// A picture of a field of stars (SVG).
fn sky() -> String {
    let bytes = noise(8 * 120, 9);
    let stars: String = bytes
        .chunks_exact(8)
        .map(|star| {
            let coordinate = |low: u8, high: u8| (f64::from(low) + f64::from(high) * 256.0) / 65_536.0 * 400.0;
            let x = coordinate(star[0], star[1]);
            let y = coordinate(star[2], star[3]);
            let size = f64::from(star[4]) / 150.0;
            format!("<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"{size:.1}\" fill=\"#fff\"/>")
        })
        .collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"400\" height=\"400\"><rect width=\"400\" height=\"400\" fill=\"#012\"/>{stars}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_have_the_formats_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.fits");
        fits(&file).unwrap();
        let bytes = fs::read(&file).unwrap();
        assert_eq!((bytes.len() % 2880, &bytes[..9]), (0, &b"SIMPLE  ="[..]));
        assert!(sky().starts_with("<svg") && sky().matches("<circle").count() == 120);
        assert_ne!(noise(64, 1), noise(64, 2));
    }
}
