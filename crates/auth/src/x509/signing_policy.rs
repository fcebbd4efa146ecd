//! Signing policies: the names that an authority may sign, as grid sites have them in files `HASH.signing_policy`.
//!
//! ```text
//! access_id_CA   X509    '/DC=org/O=Grid/CN=CA'
//! pos_rights     globus  CA:sign
//! cond_subjects  globus  '"/DC=org/O=Grid/*" "/DC=org/O=Hosts/*"'
//! ```
//!
//! The form is the part of Globus's extended access control lists that authorities use. Names are compared in the slash form; `*`
//! stands for any text.

use model::fault::{Blame, Fault};

use super::certificate::Certificate;
use crate::limits::{SIGNING_POLICIES, SIGNING_POLICY_BYTES};
use crate::policy::{DistinguishedName, DnError};

/// The signing policies of any number of authorities. An authority without one may sign every name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SigningPolicies(Vec<SigningPolicy>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct SigningPolicy {
    authority: DistinguishedName,
    /// Names in the slash form, with `*`.
    patterns: Vec<String>,
}

/// Why a file is not a signing policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SigningPolicyError {
    /// It is too long, or there are too many.
    #[error("more than {SIGNING_POLICY_BYTES} bytes in a signing policy, or more than {SIGNING_POLICIES} of them")]
    TooLong,
    /// The name of an authority cannot be read.
    #[error("line {line}: {source}")]
    Name {
        /// Which line.
        line: usize,
        /// Why.
        source: DnError,
    },
    /// A line that is not known.
    #[error("line {line}: {what}")]
    Line {
        /// Which line.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// An authority signed a name that its signing policy does not permit; both in the slash form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnpermittedName {
    pub authority: String,
    pub name: String,
}

impl Blame for SigningPolicyError {
    fn fault(&self) -> Fault {
        Fault::Config
    }
}

impl SigningPolicies {
    /// Adds the policies in the text of a file.
    ///
    /// # Errors
    /// [`SigningPolicyError`]: the text is too long, or a line of it is not understood. Then nothing of it is added: part of a policy
    /// would permit too much or too little.
    pub fn add(&mut self, text: &str) -> Result<(), SigningPolicyError> {
        if text.len() > SIGNING_POLICY_BYTES {
            return Err(SigningPolicyError::TooLong);
        }
        let mut found: Vec<SigningPolicy> = Vec::new();
        let mut may_sign = false;
        for (at, line) in text.lines().enumerate() {
            let line_number = at + 1;
            let wrong = |what| SigningPolicyError::Line { line: line_number, what };
            let Some((keyword, rest)) = words(line) else { continue };
            match (keyword, found.last_mut()) {
                ("access_id_CA", _) => {
                    let authority = DistinguishedName::parse(unquoted(rest))
                        .map_err(|source| SigningPolicyError::Name { line: line_number, source })?;
                    found.push(SigningPolicy { authority, patterns: Vec::new() });
                    may_sign = false;
                }
                ("pos_rights", Some(_)) => may_sign = rest == "CA:sign",
                ("neg_rights", Some(_)) => may_sign = false,
                ("cond_subjects", Some(policy)) if may_sign => policy.patterns.extend(patterns(rest)),
                ("cond_subjects", Some(_)) => {}
                (_, None) => return Err(wrong("it comes before the first access_id_CA")),
                _ => return Err(wrong("only access_id_CA, pos_rights, neg_rights and cond_subjects are known")),
            }
        }
        if self.0.len() + found.len() > SIGNING_POLICIES {
            return Err(SigningPolicyError::TooLong);
        }
        self.0.extend(found);
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that the authority that signed a certificate may sign its name.
    ///
    /// # Errors
    /// [`UnpermittedName`]: its policy does not permit that name.
    pub(super) fn permit(&self, certificate: &Certificate<'_>) -> Result<(), UnpermittedName> {
        let Some(authority) = certificate.issuer() else { return Ok(()) };
        let mut policies = self.0.iter().filter(|policy| policy.authority == authority).peekable();
        if policies.peek().is_none() {
            return Ok(());
        }
        // A slash in a value could pass for another part: such a name matches nothing.
        let name = certificate.name().filter(|name| DistinguishedName::parse(&name.to_string()).as_ref() == Ok(name));
        let text = name.as_ref().map(ToString::to_string);
        let is_permitted = |text: &String| policies.any(|policy| policy.patterns.iter().any(|one| matches(one, text)));
        if text.as_ref().is_some_and(is_permitted) {
            return Ok(());
        }
        let name = text.unwrap_or_else(|| certificate.shown_name());
        Err(UnpermittedName { authority: authority.to_string(), name })
    }
}

/// The keyword of a line, and the text after its second word; none for an empty line and a comment.
fn words(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (_, value) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some((keyword, value.trim()))
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(|c| c == '\'' || c == '"').trim()
}

/// The patterns of a line: each in double quotes, all together in single quotes; or one without double quotes.
fn patterns(text: &str) -> Vec<String> {
    let text = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text);
    let quoted: Vec<&str> = text.split('"').skip(1).step_by(2).collect();
    let all = if quoted.is_empty() { vec![unquoted(text)] } else { quoted };
    // The types of attributes have several names: a pattern gets the same ones as the names that it is compared with.
    let canonical =
        |pattern: &str| DistinguishedName::parse(pattern).map_or(pattern.to_owned(), |name| name.to_string());
    all.into_iter().map(str::trim).filter(|pattern| !pattern.is_empty()).map(canonical).collect()
}

/// Whether a pattern matches all of a text; `*` stands for any text, also an empty one.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    // Each part between two stars takes its first occurrence: a later one would leave less for the parts after it.
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: &str = r#"# The authority of a grid
 access_id_CA      X509         '/DC=org/O=Grid/CN=CA'
 pos_rights        globus        CA:sign
 cond_subjects     globus     '"/DC=org/O=Grid/*" "/DC=org/O=Hosts/E=*@example.org/*"'
"#;

    fn added(text: &str) -> Result<SigningPolicies, SigningPolicyError> {
        let mut policies = SigningPolicies::default();
        policies.add(text).map(|()| policies)
    }

    #[test]
    fn a_policy_is_read_with_its_authority_and_patterns() {
        let [policy] = &added(EXAMPLE).unwrap().0[..] else { panic!() };
        assert_eq!(policy.authority, DistinguishedName::parse("/DC=org/O=Grid/CN=CA").unwrap());
        assert_eq!(policy.patterns, ["/DC=org/O=Grid/*", "/DC=org/O=Hosts/EMAILADDRESS=*@example.org/*"]);
        let without_quotes = EXAMPLE.replace(r#"'"/DC=org/O=Grid/*" "/DC=org/O=Hosts/E=*@example.org/*"'"#, "/O=x/*");
        assert_eq!(added(&without_quotes).unwrap().0[0].patterns, ["/O=x/*"]);
    }

    #[test]
    fn only_the_right_to_sign_counts() {
        for other in ["pos_rights globus CA:other", "neg_rights globus CA:sign"] {
            let text = EXAMPLE.replace("pos_rights        globus        CA:sign", other);
            assert_eq!(added(&text).unwrap().0[0].patterns, [""; 0], "{other}");
        }
    }

    #[test]
    fn a_line_that_is_not_understood_is_refused_with_its_number() {
        let error = |text: &str| added(text).unwrap_err().to_string();
        assert!(error("cond_subjects globus '\"/O=x\"'").starts_with("line 1: it comes before"));
        assert!(error(&format!("{EXAMPLE}permit all\n")).starts_with("line 5: only access_id_CA"));
        assert!(error("access_id_CA X509 'nobody'").starts_with("line 1: \"nobody\" is not"));
        assert_eq!(added(&"#".repeat(SIGNING_POLICY_BYTES + 1)), Err(SigningPolicyError::TooLong));
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in [("/O=x/*", "/O=x/CN=a"), ("*", ""), ("a*b*c", "a-b-b-c"), ("a", "a"), ("a*", "a")] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("/O=x/*", "/O=xy/CN=a"), ("a*b*c", "a-c-b"), ("a", "ab"), ("*a", "ab"), ("", "a")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_made_from_a_text_matches_it(parts in prop::collection::vec("[a-c/=]{0,4}", 1..6), between in "[a-c]{0,3}") {
            prop_assert!(matches(&parts.join("*"), &parts.join(&between)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(access_id_CA|pos_rights|cond_subjects|[ '\"/=*#\\n]|CA:sign|x){0,40}") {
            let _ = added(&text);
        }
    }
}
