//! The first inputs of a corpus: the files of `fuzz/seeds/TARGET`, written by hand or taken from golden encodings. Files named
//! `.hex` have bytes as hexadecimal digits, so that the repository has only text. The words of the others become the target's
//! dictionary.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The shortest and the longest word of a dictionary.
const WORD_LETTERS: std::ops::RangeInclusive<usize> = 3..=24;

/// The seeds of a target, each with its name.
///
/// # Errors
/// A seed cannot be read, or is not hexadecimal.
pub fn of(home: &Path, target: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut seeds = Vec::new();
    for path in super::files(&home.join("seeds").join(target))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = fs::read(&path)?;
        let bytes = if name.ends_with(".hex") {
            unhex(&bytes).with_context(|| format!("{} is not hexadecimal", path.display()))?
        } else {
            bytes
        };
        seeds.push((name, bytes));
    }
    Ok(seeds)
}

/// Copies the seeds of a target into its corpus, and writes their words into its dictionary.
///
/// # Errors
/// A seed cannot be read, or a file cannot be written.
pub fn write_corpus(home: &Path, target: &str) -> Result<()> {
    let corpus = home.join("corpus").join(target);
    fs::create_dir_all(&corpus)?;
    let mut words = BTreeSet::new();
    for (name, bytes) in of(home, target)? {
        fs::write(corpus.join(format!("seed-{name}")), &bytes)?;
        if !name.ends_with(".hex") {
            words.extend(words_of(&String::from_utf8_lossy(&bytes)));
        }
    }
    if !words.is_empty() {
        let path = dictionary(home, target);
        fs::create_dir_all(home.join("dictionaries"))?;
        let mut text = String::new();
        words.iter().try_for_each(|word| writeln!(text, "\"{word}\""))?;
        fs::write(path, text)?;
    }
    Ok(())
}

/// The path of a target's dictionary, which may not exist.
pub fn dictionary(home: &Path, target: &str) -> PathBuf {
    home.join("dictionaries").join(target)
}

/// The words of a text: runs of letters, digits, hyphens, underscores and colons.
fn words_of(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_:".contains(c)));
    parts
        .map(|word| word.trim_matches(':'))
        .filter(|word| WORD_LETTERS.contains(&word.len()))
        .map(str::to_owned)
        .collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let (pairs, odd) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    odd.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_become_bytes_and_texts_become_words() {
        assert_eq!(unhex(b"0a ff\n00"), Some(vec![10, 255, 0]));
        assert_eq!((unhex(b"0"), unhex(b"zz")), (None, None));
        let words = words_of("<D:prop xmlns:D=\"DAV:\"> a bc getetag");
        assert_eq!(words, ["D:prop", "xmlns:D", "DAV", "getetag"]);
    }
}
