//! One line of the body of a third-party copy: its text may come from anywhere, and must not break it.

/// The longest text that goes into one line, bytes: with the word before it, it stays below what davix keeps.
const TEXT_BYTES_MAX: usize = 900;

/// Text as part of one line.
pub(super) fn one_line(text: &str) -> String {
    let parts = text.split(|c: char| c.is_control()).map(str::trim).filter(|part| !part.is_empty());
    let mut line = parts.collect::<Vec<_>>().join(" ");
    line.truncate(line.floor_char_boundary(TEXT_BYTES_MAX));
    line
}
