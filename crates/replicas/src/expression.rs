//! Expressions that select endpoints, in the grammar of Rucio's RSE expressions: `tier=1&(region=eu|region=us)\ral`.

mod parse;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The attributes of an endpoint: keys and their values.
pub type Attributes = BTreeMap<String, String>;

/// An expression that selects endpoints.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// `*`: all of them.
    All,
    /// A name, in which `*` stands for any characters. It matches the endpoint of this name, and endpoints with an attribute of
    /// this name whose value is `true`.
    Named(String),
    /// `key=value`, `key<number` or `key>number`; in a value, `*` stands for any characters.
    Attribute {
        /// The key of the attribute.
        key: String,
        /// How its value is compared.
        comparison: Comparison,
        /// The value that it is compared with.
        value: String,
    },
    /// Two expressions, and how they are joined.
    Joined(Box<Expression>, Operator, Box<Expression>),
}

/// How the value of an attribute is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`.
    Equal,
    /// `<`, of numbers.
    Less,
    /// `>`, of numbers.
    Greater,
}

/// How two expressions are joined. All operators have the same precedence and associate to the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `|`: endpoints that match one of them or both.
    Union,
    /// `&`: endpoints that match both.
    Intersection,
    /// `\`: endpoints that match the first and not the second.
    Complement,
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid expression of endpoints: at character {at}, {why}")]
pub struct ExpressionError {
    /// The text, or its beginning.
    pub text: String,
    /// The position of the error in the text, in characters from 1.
    pub at: usize,
    /// What is wrong there, and what could be.
    pub why: String,
}

impl Comparison {
    fn symbol(self) -> char {
        match self {
            Comparison::Equal => '=',
            Comparison::Less => '<',
            Comparison::Greater => '>',
        }
    }
}

impl Operator {
    fn symbol(self) -> char {
        match self {
            Operator::Union => '|',
            Operator::Intersection => '&',
            Operator::Complement => '\\',
        }
    }
}

impl Expression {
    /// Whether an endpoint matches.
    pub fn matches(&self, endpoint: &str, attributes: &Attributes) -> bool {
        match self {
            Expression::All => true,
            Expression::Named(name) => {
                matches_pattern(name, endpoint)
                    || attributes.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
            }
            Expression::Attribute { key, comparison, value } => {
                attributes.get(key).is_some_and(|found| compare(found, *comparison, value))
            }
            Expression::Joined(left, operator, right) => {
                let (left, right) = (left.matches(endpoint, attributes), right.matches(endpoint, attributes));
                match operator {
                    Operator::Union => left || right,
                    Operator::Intersection => left && right,
                    Operator::Complement => left && !right,
                }
            }
        }
    }
}

fn compare(found: &str, comparison: Comparison, value: &str) -> bool {
    let numbers = || Some((found.parse::<f64>().ok()?, value.parse::<f64>().ok()?));
    match comparison {
        Comparison::Equal => matches_pattern(value, found) || is_same_truth(value, found),
        Comparison::Less => numbers().is_some_and(|(found, value)| found < value),
        Comparison::Greater => numbers().is_some_and(|(found, value)| found > value),
    }
}

/// Whether both values are true or both are false; `True` and `true` are the same.
fn is_same_truth(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) && ["true", "false"].iter().any(|word| word.eq_ignore_ascii_case(a))
}

/// Whether a text matches a pattern, in which `*` stands for any characters.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Expression, ExpressionError> {
        parse::parse(text)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::All => f.write_str("*"),
            Expression::Named(name) => f.write_str(name),
            Expression::Attribute { key, comparison, value } => write!(f, "{key}{}{value}", comparison.symbol()),
            Expression::Joined(left, operator, right) => {
                write!(f, "{left}{}", operator.symbol())?;
                match **right {
                    Expression::Joined(..) => write!(f, "({right})"),
                    _ => write!(f, "{right}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn endpoints() -> Vec<(&'static str, Attributes)> {
        let of = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Attributes>()
        };
        vec![
            ("cern", of(&[("region", "eu"), ("tier", "0"), ("tape", "true")])),
            ("ral", of(&[("region", "eu"), ("tier", "1")])),
            ("bnl", of(&[("region", "us"), ("tier", "1"), ("scratch", "True")])),
            ("ska-low", of(&[("region", "au"), ("tier", "10")])),
        ]
    }

    fn matching(text: &str) -> Vec<&'static str> {
        let expression: Expression = text.parse().unwrap();
        let all = endpoints();
        all.into_iter()
            .filter(|(name, attributes)| expression.matches(name, attributes))
            .map(|(name, _)| name)
            .collect()
    }

    #[test]
    fn an_expression_selects_endpoints() {
        for (text, names) in [
            ("*", vec!["cern", "ral", "bnl", "ska-low"]),
            ("cern", vec!["cern"]),
            ("cern|bnl", vec!["cern", "bnl"]),
            ("region=eu", vec!["cern", "ral"]),
            ("region=eu&tier=1", vec!["ral"]),
            (r"*\region=eu", vec!["bnl", "ska-low"]),
            ("tier<2", vec!["cern", "ral", "bnl"]),
            ("tier>1", vec!["ska-low"]),
            ("scratch", vec!["bnl"]),
            ("tape=True", vec!["cern"]),
            ("ska-*", vec!["ska-low"]),
            ("region=*u", vec!["cern", "ral", "ska-low"]),
            // All operators have the same precedence.
            ("cern|ral&tier=1", vec!["ral"]),
            ("cern|(ral&tier=1)", vec!["cern", "ral"]),
            (r"(region=eu|region=us)\(tier=0|scratch)", vec!["ral"]),
            (" region=eu & tier=1 ", vec!["ral"]),
            ("region=moon", vec![]),
        ] {
            assert_eq!(matching(text), names, "{text}");
        }
    }

    #[test]
    fn an_error_names_the_character_and_what_is_expected_there() {
        let deep = "(".repeat(1_000);
        let long = "a|".repeat(10_000);
        for (text, at, why) in [
            ("", 1, "an endpoint"),
            ("a|", 3, "an endpoint"),
            ("a b", 3, "'|', '&' or '\\'"),
            ("(a", 3, "')'"),
            ("a)", 2, "'|', '&' or '\\'"),
            ("=x", 1, "an endpoint"),
            ("a=", 3, "a value"),
            ("a=b=c", 4, "'|', '&' or '\\'"),
            ("a<b", 3, "a number"),
            ("a;drop", 2, "'|', '&' or '\\'"),
            (deep.as_str(), 65, "parentheses"),
            (long.as_str(), 4097, "4096"),
        ] {
            let error = text.parse::<Expression>().unwrap_err();
            assert_eq!(error.at, at, "{error}");
            assert!(error.why.contains(why) && error.to_string().len() < 400, "{error}");
        }
    }

    fn expressions() -> impl Strategy<Value = Expression> {
        let word = "[a-z][a-z0-9_.-]{0,5}";
        let leaf = prop_oneof![
            Just(Expression::All),
            word.prop_map(Expression::Named),
            (word, word).prop_map(|(key, value)| Expression::Attribute { key, comparison: Comparison::Equal, value }),
            (word, 0..99u8).prop_map(|(key, value)| Expression::Attribute {
                key: key.to_owned(),
                comparison: Comparison::Less,
                value: value.to_string()
            }),
        ];
        let operator = prop_oneof![Just(Operator::Union), Just(Operator::Intersection), Just(Operator::Complement)];
        leaf.prop_recursive(5, 32, 2, move |inner| {
            (inner.clone(), operator.clone(), inner)
                .prop_map(|(left, operator, right)| Expression::Joined(Box::new(left), operator, Box::new(right)))
        })
    }

    proptest! {
        #[test]
        fn an_expression_that_is_written_is_read_back(expression in expressions()) {
            prop_assert_eq!(expression.to_string().parse::<Expression>(), Ok(expression));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-c=<>|&\\\\()* ]{0,20}") {
            let _ = text.parse::<Expression>();
        }

        #[test]
        fn a_pattern_matches_a_text_with_its_parts(parts in proptest::collection::vec("[ab]{0,3}", 1..5)) {
            prop_assert!(matches_pattern(&parts.join("*"), &parts.join("ab")));
        }
    }
}
