//! One line in the body of a third-party copy. Its text may come from a peer, and must not break the line.

/// The longest text in one line, bytes: together with the word before it, the line is shorter than davix's limit.
const TEXT_BYTES_MAX: usize = 900;

/// Joins the lines of a text and cuts it to the limit.
pub(super) fn one_line(text: &str) -> String {
    let parts = text.split(|c: char| c.is_control()).map(str::trim).filter(|part| !part.is_empty());
    let mut line = parts.collect::<Vec<_>>().join(" ");
    line.truncate(line.floor_char_boundary(TEXT_BYTES_MAX));
    line
}
