//! Entity tags and conditional requests (RFC 9110, sections 8.8 and 13).

use std::fmt;

use model::Timestamp;

use crate::date;

/// An entity tag (RFC 9110, section 8.8.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag {
    weak: bool,
    opaque: String,
}

impl ETag {
    /// A strong tag; characters that are not permitted in a tag are left out.
    pub fn strong(opaque: &str) -> ETag {
        ETag { weak: false, opaque: opaque.chars().filter(|c| is_etag_char(*c)).collect() }
    }

    /// A weak tag; characters that are not permitted in a tag are left out.
    pub fn weak(opaque: &str) -> ETag {
        ETag { weak: true, ..ETag::strong(opaque) }
    }

    /// The tag of a file: it changes when the file is replaced (inode), grows, or is written to (time).
    pub fn of_file(inode: u64, size: u64, modified: Timestamp) -> ETag {
        ETag::strong(&format!("{inode:x}-{size:x}-{:x}.{:x}", modified.seconds, modified.nanos))
    }

    /// Parses one tag; `None` where it is malformed, for example unquoted.
    pub fn parse(text: &str) -> Option<ETag> {
        let (tag, rest) = ETag::take(text.trim())?;
        rest.is_empty().then_some(tag)
    }

    /// Parses a tag at the start of a text. Returns it with the rest of the text.
    fn take(text: &str) -> Option<(ETag, &str)> {
        let (weak, quoted) = match text.strip_prefix("W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (opaque, rest) = quoted.strip_prefix('"')?.split_once('"')?;
        opaque.chars().all(is_etag_char).then(|| (ETag { weak, opaque: opaque.to_owned() }, rest))
    }

    /// Whether the tag is weak: usable for caches, not for ranges.
    pub fn is_weak(&self) -> bool {
        self.weak
    }

    /// The strong comparison (section 8.8.3.2): both strong, and the same.
    pub fn is_same_strong(&self, other: &ETag) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// The weak comparison: the same, weak or strong.
    pub fn is_same_weak(&self, other: &ETag) -> bool {
        self.opaque == other.opaque
    }
}

fn is_etag_char(c: char) -> bool {
    c != '"' && !c.is_control() && c != ' '
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\"{}\"", if self.weak { "W/" } else { "" }, self.opaque)
    }
}

/// `*`, or a list of tags.
enum Tags {
    Any,
    List(Vec<ETag>),
}

impl Tags {
    /// Parses a list up to the first malformed tag; the rest matches nothing.
    fn parse(value: &str) -> Tags {
        if value.trim() == "*" {
            return Tags::Any;
        }
        let mut tags = Vec::new();
        let mut rest = value;
        while let Some((tag, after)) = ETag::take(rest.trim_start_matches([' ', '\t', ','])) {
            tags.push(tag);
            rest = after;
        }
        Tags::List(tags)
    }

    fn matches(&self, current: Option<&Current>, same: fn(&ETag, &ETag) -> bool) -> bool {
        match (self, current) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::List(tags), Some(current)) => {
                current.etag.as_ref().is_some_and(|have| tags.iter().any(|tag| same(tag, have)))
            }
        }
    }
}

/// The present state of a resource.
#[derive(Clone, Debug, Default)]
pub struct Current {
    /// Its tag, if it has one.
    pub etag: Option<ETag>,
    /// The time of its last change, if known.
    pub modified: Option<Timestamp>,
}

/// The conditions of a request: the values of its headers. Repeated headers are joined by commas before they get here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'a> {
    /// `If-Match`.
    pub if_match: Option<&'a str>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a str>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a str>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a str>,
}

/// The result of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Process the request; [`crate::range::if_range_holds`] decides whether its `Range` holds.
    Proceed,
    /// 304: the client's copy is current.
    NotModified,
    /// 412: a condition does not hold.
    Failed,
}

impl Conditions<'_> {
    /// Evaluates the conditions in the order of RFC 9110, section 13.2.2. `reading`: the method is GET or HEAD; `current` is `None`
    /// where the resource does not exist. Malformed dates are ignored, as the RFC demands; a malformed tag matches nothing.
    pub fn evaluate(&self, reading: bool, current: Option<&Current>) -> Verdict {
        let modified_s = current.and_then(|current| current.modified).map(|at| at.seconds);
        let date_s = |value: Option<&str>| value.and_then(date::parse_http).map(|at| at.seconds);
        if let Some(tags) = self.if_match {
            if !Tags::parse(tags).matches(current, ETag::is_same_strong) {
                return Verdict::Failed;
            }
        } else if let (Some(since), Some(modified)) = (date_s(self.if_unmodified_since), modified_s)
            && modified > since
        {
            return Verdict::Failed;
        }
        if let Some(tags) = self.if_none_match {
            if !Tags::parse(tags).matches(current, ETag::is_same_weak) {
                return Verdict::Proceed;
            }
            return if reading { Verdict::NotModified } else { Verdict::Failed };
        }
        match (date_s(self.if_modified_since), modified_s) {
            (Some(since), Some(modified)) if reading && modified <= since => Verdict::NotModified,
            _ => Verdict::Proceed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn current(tag: &str) -> Current {
        Current { etag: ETag::parse(tag), modified: Some(Timestamp { seconds: 784_111_777, nanos: 5 }) }
    }

    #[test]
    fn tags_are_compared_as_in_the_rfc() {
        let tag = |text| ETag::parse(text).unwrap();
        for (a, b, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            assert_eq!(tag(a).is_same_strong(&tag(b)), strong, "{a} {b}");
            assert_eq!(tag(a).is_same_weak(&tag(b)), weak, "{a} {b}");
        }
        for bad in ["", "1", "\"1", "1\"", "w/\"1\"", "\"1\" \"2\"", "\"a b\""] {
            assert_eq!(ETag::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn conditions_on_tags_are_evaluated() {
        let evaluate = |if_match, if_none_match, reading, tag: Option<&str>| {
            let conditions = Conditions { if_match, if_none_match, ..Conditions::default() };
            conditions.evaluate(reading, tag.map(current).as_ref())
        };
        use Verdict::{Failed, NotModified, Proceed};
        for (if_match, if_none_match, reading, tag, verdict) in [
            (Some("*"), None, true, Some("\"a\""), Proceed),
            (Some("*"), None, false, None, Failed),
            (Some("\"x\", \"a\""), None, false, Some("\"a\""), Proceed),
            (Some("\"x\""), None, false, Some("\"a\""), Failed),
            (Some("W/\"a\""), None, false, Some("W/\"a\""), Failed),
            (Some("a"), None, false, Some("\"a\""), Failed),
            (None, Some("*"), false, Some("\"a\""), Failed),
            (None, Some("*"), false, None, Proceed),
            (None, Some("\"x\" , W/\"a\""), true, Some("\"a\""), NotModified),
            (None, Some("\"a\""), false, Some("\"a\""), Failed),
            (None, Some("\"x\""), true, Some("\"a\""), Proceed),
            (Some("\"a\""), Some("\"a\""), true, Some("\"a\""), NotModified),
            (Some("\"b\""), Some("\"a\""), true, Some("\"a\""), Failed),
        ] {
            let given = format!("{if_match:?} {if_none_match:?} {reading} {tag:?}");
            assert_eq!(evaluate(if_match, if_none_match, reading, tag), verdict, "{given}");
        }
    }

    #[test]
    fn conditions_on_dates_are_evaluated() {
        let since = |since| Conditions { if_modified_since: Some(since), ..Conditions::default() };
        let unless = |since| Conditions { if_unmodified_since: Some(since), ..Conditions::default() };
        let now = current("\"a\"");
        assert_eq!(since(SAME).evaluate(true, Some(&now)), Verdict::NotModified);
        assert_eq!(since(SAME).evaluate(false, Some(&now)), Verdict::Proceed);
        assert_eq!(since(BEFORE).evaluate(true, Some(&now)), Verdict::Proceed);
        assert_eq!(since("soon").evaluate(true, Some(&now)), Verdict::Proceed);
        assert_eq!(unless(SAME).evaluate(false, Some(&now)), Verdict::Proceed);
        assert_eq!(unless(BEFORE).evaluate(false, Some(&now)), Verdict::Failed);
        assert_eq!(unless(BEFORE).evaluate(false, None), Verdict::Proceed);
        // Tags come before dates.
        let both = Conditions { if_none_match: Some("\"b\""), ..since(SAME) };
        assert_eq!(both.evaluate(true, Some(&now)), Verdict::Proceed);
    }

    proptest! {
        #[test]
        fn a_written_tag_is_parsed_unchanged(opaque in any::<String>(), weak in any::<bool>()) {
            let tag = if weak { ETag::weak(&opaque) } else { ETag::strong(&opaque) };
            prop_assert_eq!(ETag::parse(&tag.to_string()), Some(tag));
        }

        #[test]
        fn any_conditions_are_evaluated(text in any::<String>(), tags in "(W/)?(\"a?\" ?,?){0,4}") {
            crate::fuzzing::conditions(text.as_bytes());
            crate::fuzzing::conditions(tags.as_bytes());
        }
    }
}
