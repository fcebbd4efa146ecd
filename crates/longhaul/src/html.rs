//! Pages for people: what all of them need.

/// Text that cannot be taken for markup.
pub fn text(raw: &str) -> String {
    raw.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
