//! What a corpus begins with: the files of `fuzz/seeds/TARGET`, made by hand or from golden encodings. Those that end in `.hex`
//! hold bytes as hexadecimal digits, as a repository holds text. The words of the others are the target's dictionary.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The shortest and the longest word of a dictionary.
const WORD_LETTERS: std::ops::RangeInclusive<usize> = 3..=24;

/// The seeds of a target, each with its name.
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

/// Puts the seeds of a target into its corpus, and their words into its dictionary.
pub fn sow(home: &Path, target: &str) -> Result<()> {
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

/// Where a target's dictionary is, if it has one.
pub fn dictionary(home: &Path, target: &str) -> PathBuf {
    home.join("dictionaries").join(target)
}

/// Runs of letters, digits and what names have between them.
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
    fn digits_become_bytes_and_texts_words() {
        assert_eq!(unhex(b"0a ff\n00"), Some(vec![10, 255, 0]));
        assert_eq!((unhex(b"0"), unhex(b"zz")), (None, None));
        let words = words_of("<D:prop xmlns:D=\"DAV:\"> a bc getetag");
        assert_eq!(words, ["D:prop", "xmlns:D", "DAV", "getetag"]);
    }
}
