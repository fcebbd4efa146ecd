//! Pages as browsers and parsers see them.

use proptest::prelude::*;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::*;

/// Checks that a page, or a part of one, is well-formed XML. Returns its text.
#[track_caller]
pub fn well_formed(markup: &str) -> String {
    let markup = markup.trim_start_matches("<!doctype html>");
    let mut reader = Reader::from_str(markup);
    reader.config_mut().check_end_names = true;
    let mut text = String::new();
    let mut open = 0;
    loop {
        match reader.read_event().unwrap_or_else(|e| panic!("{e} at {}: {markup}", reader.buffer_position())) {
            Event::Start(tag) => {
                open += 1;
                attributes(&tag);
            }
            Event::Empty(tag) => attributes(&tag),
            Event::End(_) => open -= 1,
            Event::Text(part) => text += &part.decode().unwrap(),
            Event::GeneralRef(name) => match &*name.decode().unwrap() {
                "amp" => text.push('&'),
                "lt" => text.push('<'),
                "gt" => text.push('>'),
                "quot" => text.push('"'),
                "#39" => text.push('\''),
                other => panic!("&{other}; is not an entity that pages use"),
            },
            Event::Eof => break,
            other => panic!("{other:?} has no place in a page"),
        }
    }
    assert_eq!(open, 0, "{markup}");
    assert!(
        !markup.chars().any(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{fffe}' | '\u{ffff}'))
    );
    text
}

/// Checks the attributes of an element: none runs or loads anything.
fn attributes(tag: &quick_xml::events::BytesStart<'_>) {
    let name = String::from_utf8(tag.name().as_ref().to_vec()).unwrap();
    assert!(!["script", "iframe", "object", "embed", "link", "base", "form", "img"].contains(&name.as_str()), "{name}");
    for attribute in tag.attributes() {
        let attribute = attribute.unwrap();
        let key = String::from_utf8(attribute.key.as_ref().to_vec()).unwrap();
        assert!(!key.starts_with("on") && !["src", "href", "style", "action"].contains(&key.as_str()), "{name} {key}");
        assert!(!attribute.value.contains(&b'<'), "{name} {key}");
    }
}

#[test]
fn a_page_is_one_file() {
    let page = page("a <b> & \"c\"", "<p>x</p>");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("<title>a &lt;b&gt; &amp; &quot;c&quot;</title>"));
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("), "nothing is fetched");
    well_formed(&page);
}

#[test]
fn hidden_characters_are_spelled_out() {
    assert_eq!(text("a\u{202e}b\u{7}c\u{0}\u{feff}\u{ffff}"), "a\\u{202e}b\\u{7}c\\u{0}\\u{feff}\\u{ffff}");
    assert_eq!(text("4096\t131072\nö 日本 🚀"), "4096\t131072\nö 日本 🚀");
    assert_eq!(name("a\nb<c"), "<span class=\"name\">a\\nb&lt;c</span>");
    let long = "ö".repeat(1_000_000);
    assert_eq!(brief(&long).chars().count(), BRIEF_CHARS_MAX + 2);
    assert_eq!(text(&long), long);
}

#[test]
fn tables_have_heads_and_captions() {
    let mut table = Table::new("numbers", "All <of> it", &["a", "b & c"]);
    table.row(&["1".into(), "<2>".into()]);
    table.markup(&[name("x"), "<b>3</b>".into()]);
    let markup = table.folded("Numbers");
    assert!(markup.contains("<th scope=\"row\">1</th><td>&lt;2&gt;</td>") && markup.contains("<td><b>3</b></td>"));
    assert_eq!(well_formed(&markup), "NumbersAll <of> itab & c1<2>\nx3\n");
}

proptest! {
    #[test]
    fn any_text_stays_text(raw in any::<String>()) {
        let shown = well_formed(&page(&raw, &format!("<p>{}</p>{}", text(&raw), name(&raw))));
        let seen: String = raw.chars().take(BRIEF_CHARS_MAX).filter(|c| c.is_alphanumeric()).collect();
        let shown: String = shown.chars().filter(|c| c.is_alphanumeric()).collect();
        prop_assert!(raw.chars().any(web::markup::is_hidden) || shown.matches(&seen).count() >= 3);
    }
}
