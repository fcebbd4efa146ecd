//! Escapes text for pages of HTML.

/// Escapes text so that it is not read as markup. Invisible characters, and those that change the direction of text, are written as
/// escapes of Rust.
pub fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if is_hidden(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Whether a character is a control character, changes the direction of text, has no width, or is forbidden in XML.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(u32::from(c) & 0xffff, 0xfffe | 0xffff)
        || matches!(c, '\u{fdd0}'..='\u{fdef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_invisible_characters_are_escaped() {
        assert_eq!(text("<b a='x'>&\"\n"), "&lt;b a=&#39;x&#39;&gt;&amp;&quot;\n");
        assert_eq!(
            text("a\0\u{202e}gpj.exe\u{feff}"),
            "a\\u{0}\\u{202e}gpj.exe\\u{feff}",
            "characters that change the direction are escaped"
        );
        assert_eq!(text("ä ☃"), "ä ☃");
    }
}
