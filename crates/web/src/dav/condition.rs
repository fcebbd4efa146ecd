//! The field `If` (RFC 4918, section 10.4): conditions on the state of resources, and the lock tokens that a client submits.

use crate::conditions::ETag;

/// The longest value that is read, bytes.
pub const BYTES_MAX: usize = 16 << 10;
/// The most conditions that are read.
pub const CONDITIONS_MAX: usize = 256;

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The condition is negated.
    pub is_not: bool,
    /// The subject of the condition.
    pub what: ConditionSubject,
}

/// The subject of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionSubject {
    /// A lock with this token holds the resource.
    Token(String),
    /// The resource has this entity tag.
    Tag(ETag),
}

/// A list of conditions, all of which must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionList {
    /// The address of the resource; `None` for the resource of the request.
    pub resource: Option<String>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// The whole field: at least one of the lists must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct If(Vec<ConditionList>);

/// The state of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Its entity tag, where it has one that the client may see.
    pub etag: Option<ETag>,
    /// Tokens of the locks on it.
    pub tokens: Vec<String>,
}

impl If {
    /// Parses the field; `None` where it is malformed.
    pub fn parse(value: &str) -> Option<If> {
        if value.len() > BYTES_MAX {
            return None;
        }
        let mut rest = value.trim_start();
        let mut lists = Vec::new();
        let mut resource = None;
        let mut conditions = 0;
        while !rest.is_empty() {
            if let Some(tagged) = rest.strip_prefix('<') {
                let (address, after) = tagged.split_once('>')?;
                // Either every list follows an address, or none does.
                if resource.is_none() && !lists.is_empty() {
                    return None;
                }
                (resource, rest) = (Some(address.to_owned()), after.trim_start());
            }
            let (list, after) = list(rest)?;
            conditions += list.len();
            if conditions > CONDITIONS_MAX {
                return None;
            }
            lists.push(ConditionList { resource: resource.clone(), conditions: list });
            rest = after.trim_start();
        }
        (!lists.is_empty()).then_some(If(lists))
    }

    /// All lock tokens in the field. By naming a token a client shows that it knows the lock.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|list| &list.conditions).filter_map(|condition| match &condition.what {
            ConditionSubject::Token(token) => Some(token.as_str()),
            ConditionSubject::Tag(_) => None,
        })
    }

    /// Whether the field holds; `state` returns the state of the resource to which a list applies.
    pub fn holds(&self, mut state: impl FnMut(Option<&str>) -> State) -> bool {
        self.0.iter().any(|list| {
            let state = state(list.resource.as_deref());
            list.conditions.iter().all(|condition| {
                let matches = match &condition.what {
                    ConditionSubject::Token(token) => state.tokens.contains(token),
                    ConditionSubject::Tag(tag) => state.etag.as_ref().is_some_and(|have| have.is_same_strong(tag)),
                };
                matches != condition.is_not
            })
        })
    }
}

/// Parses a list at the start of a text. Returns it with the rest of the text.
fn list(text: &str) -> Option<(Vec<Condition>, &str)> {
    let mut rest = text.strip_prefix('(')?.trim_start();
    let mut conditions = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(')') {
            return (!conditions.is_empty()).then_some((conditions, after));
        }
        let not = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("not"));
        let one = if not { rest[3..].trim_start() } else { rest };
        let (what, after) = if let Some(tag) = one.strip_prefix('[') {
            let (tag, after) = tag.split_once(']')?;
            (ConditionSubject::Tag(ETag::parse(tag)?), after)
        } else {
            let (token, after) = one.strip_prefix('<')?.split_once('>')?;
            (ConditionSubject::Token(token.trim().to_owned()), after)
        };
        conditions.push(Condition { is_not: not, what });
        rest = after.trim_start();
    }
}

/// The token in the field `Lock-Token` (RFC 4918, section 10.5).
pub fn lock_token(value: &str) -> Option<&str> {
    value.trim().strip_prefix('<')?.strip_suffix('>').map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(etag: &str, tokens: &[&str]) -> State {
        State { etag: ETag::parse(etag), tokens: tokens.iter().map(|token| (*token).to_owned()).collect() }
    }

    fn holds(value: &str, etag: &str, tokens: &[&str]) -> bool {
        If::parse(value).unwrap().holds(|_| state(etag, tokens))
    }

    #[test]
    fn the_field_holds_if_all_conditions_of_one_list_hold() {
        assert!(holds("(<urn:a>)", "\"e\"", &["urn:a"]));
        assert!(!holds("(<urn:a> [\"f\"])", "\"e\"", &["urn:a"]));
        assert!(holds("(<urn:a> [\"f\"]) ([\"e\"])", "\"e\"", &[]));
        assert!(holds("(Not <DAV:no-lock>)", "\"e\"", &[]));
        assert!(!holds("(<DAV:no-lock>)", "\"e\"", &[]));
        assert!(holds("(NOT <urn:b> <urn:a>)", "", &["urn:a"]));
        assert!(!holds("([W/\"e\"])", "\"e\"", &[]), "weak tags are never the same");
    }

    #[test]
    fn a_list_applies_to_the_resource_of_its_address() {
        let field = If::parse("</a> (<urn:a>) ([\"x\"]) <http://h/b>(<urn:b>)").unwrap();
        let mut resources = Vec::new();
        assert!(!field.holds(|resource| {
            resources.push(resource.map(str::to_owned));
            State::default()
        }));
        assert_eq!(resources, ["/a", "/a", "http://h/b"].map(|address| Some(address.to_owned())));
        assert_eq!(field.tokens().collect::<Vec<_>>(), ["urn:a", "urn:b"]);
        assert!(field.holds(|resource| state("", if resource == Some("http://h/b") { &["urn:b"] } else { &[] })));
    }

    #[test]
    fn malformed_fields_are_refused() {
        for bad in
            ["", " ", "()", "(<a>", "<a>", "<a", "(a)", "([a])", "(<a>) <b> (<c>)", "(Not)", "(<a>) x", "(Not [)"]
        {
            assert_eq!(If::parse(bad), None, "{bad}");
        }
        assert_eq!(If::parse(&"(<a>)".repeat(CONDITIONS_MAX + 1)), None);
        assert_eq!(lock_token(" <urn:a> "), Some("urn:a"));
        assert_eq!((lock_token("urn:a"), lock_token("<>")), (None, None));
    }

    proptest! {
        #[test]
        fn any_field_is_parsed_or_refused(text in any::<String>(), likely in "(\\(|\\)|<urn:a>|\\[\"e\"\\]|Not|not|<|>|\\[| |é){0,20}") {
            crate::fuzzing::condition(text.as_bytes());
            crate::fuzzing::condition(likely.as_bytes());
        }
    }
}
