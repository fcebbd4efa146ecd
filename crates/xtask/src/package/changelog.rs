//! CHANGELOG.md in the form that Debian's tools read (deb-changelog(5)).

use jiff::Timestamp;

/// The maintainer of the package: from DEBFULLNAME and DEBEMAIL, which Debian's own tools read too, or else the authors.
pub fn maintainer() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let name = variable("DEBFULLNAME").unwrap_or_else(|| "The authors of Longhaul".into());
    let mail = variable("DEBEMAIL").unwrap_or_else(|| "authors@longhaul.invalid".into());
    format!("{name} <{mail}>")
}

/// A time in the format of RFC 5322.
fn date(epoch: u64) -> String {
    let at = Timestamp::from_second(epoch.cast_signed()).unwrap_or_default();
    at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

/// The beginning of a day such as 2026-11-25, in seconds since 1970.
fn day(text: &str) -> Option<u64> {
    let day: jiff::civil::Date = text.parse().ok()?;
    u64::try_from(day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second()).ok()
}

/// The changelog in Debian's format. The section of unreleased changes gets this version and time; the heading of each other section has
/// its version and day: `0.1.0 - 2026-11-25`. A version without a section is the newest one, packed again.
pub fn debian(text: &str, version: &str, epoch: u64, maintainer: &str) -> String {
    let mut out = String::new();
    let newest = text.split("\n## ").nth(1).and_then(|section| section.split_whitespace().next()).unwrap_or_default();
    if !newest.eq_ignore_ascii_case("unreleased") && !text.contains(&format!("\n## {version} ")) {
        out += &format!("longhaul ({version}) unstable; urgency=medium\n\n  * As {newest}.\n\n");
        out += &format!(" -- {maintainer}  {}\n\n", date(epoch));
    }
    for section in text.split("\n## ").skip(1) {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        let mut words = heading.split_whitespace();
        let name = words.next().unwrap_or_default();
        let day = words.nth(1).and_then(day);
        let is_released = !name.eq_ignore_ascii_case("unreleased");
        if !is_released && text.contains(&format!("\n## {version} ")) {
            continue;
        }
        let version = if is_released { name } else { version };
        out += &format!("longhaul ({version}) unstable; urgency=medium\n\n{}", entries(body));
        out += &format!(" -- {maintainer}  {}\n\n", date(day.unwrap_or(epoch)));
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// The entries of a section: list items begin with an asterisk, and a paragraph above a list is put in brackets.
fn entries(body: &str) -> String {
    let mut out = String::new();
    let paragraphs = body.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    for paragraph in paragraphs {
        if !paragraph.starts_with("- ") {
            let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            out += &format!("  [ {line} ]\n");
            continue;
        }
        for line in paragraph.lines() {
            match line.strip_prefix("- ") {
                Some(item) => out += &format!("  * {item}\n"),
                None => out += &format!("    {}\n", line.trim()),
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_a_section_is_on_top() {
        let text = "# Changelog\n\n## 0.2.0 - 2026-11-29\n\n- a\n";
        let packed = |version: &str| debian(text, version, 1_700_000_000, "A <a@b.invalid>");
        let released = "longhaul (0.2.0) unstable; urgency=medium\n\n  * a\n";
        assert!(packed("0.2.0").starts_with(released), "{}", packed("0.2.0"));
        let again =
            "longhaul (0.2.0+later) unstable; urgency=medium\n\n  * As 0.2.0.\n\n -- A <a@b.invalid>  Tue, 14 Nov 2023";
        let text = packed("0.2.0+later");
        assert!(text.starts_with(again) && text.contains(released), "{text}");
    }

    #[test]
    fn every_section_becomes_a_version() {
        let text =
            "# Changelog\n\n## Unreleased\n\nOne.\n\n- a\n  b\n- c\n\nTwo.\n\n- d\n\n## 0.0.9 - 2023-11-01\n\n- e\n";
        let development = debian(text, "0.1.0", 1_700_000_000, "A <a@b.invalid>");
        let line = " -- A <a@b.invalid>  Tue, 14 Nov 2023 22:13:20 +0000\n";
        let old = " -- A <a@b.invalid>  Wed, 01 Nov 2023 00:00:00 +0000\n";
        let expected = format!(
            "longhaul (0.1.0) unstable; urgency=medium\n\n  [ One. ]\n  * a\n    b\n  * c\n\n  [ Two. ]\n  * d\n\n{line}\n\
             longhaul (0.0.9) unstable; urgency=medium\n\n  * e\n\n{old}"
        );
        assert_eq!(development, expected);
        let release = debian(text, "0.0.9", 1_700_000_000, "A <a@b.invalid>");
        assert_eq!(release, format!("longhaul (0.0.9) unstable; urgency=medium\n\n  * e\n\n{old}"));
    }
}
