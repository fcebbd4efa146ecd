//! Reads an expression: from left to right, one character ahead.

use super::{Comparison, Expression, ExpressionError, Operator};

/// The longest expression, characters.
const CHARS_MAX: usize = 4096;
/// How deep parentheses may be nested.
const DEPTH_MAX: usize = 64;

struct Parser {
    chars: Vec<char>,
    at: usize,
}

pub(super) fn parse(text: &str) -> Result<Expression, ExpressionError> {
    let chars: Vec<char> = text.chars().take(CHARS_MAX + 1).collect();
    let mut parser = Parser { chars, at: 0 };
    if parser.chars.len() > CHARS_MAX {
        parser.at = CHARS_MAX;
        return Err(parser.error(format!("the text is too long: at most {CHARS_MAX} characters are allowed")));
    }
    let expression = parser.joined(0)?;
    match parser.next_char() {
        None => Ok(expression),
        Some(_) => Err(parser.error("'|', '&' or '\\' is expected, or the end".to_owned())),
    }
}

impl Parser {
    fn error(&self, why: String) -> ExpressionError {
        ExpressionError { text: self.chars.iter().take(80).collect(), at: self.at + 1, why }
    }

    /// Skips spaces. Returns the next character, and does not consume it.
    fn next_char(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    /// Terms, joined by operators.
    fn joined(&mut self, depth: usize) -> Result<Expression, ExpressionError> {
        let mut expression = self.term(depth)?;
        while let Some(operator) = self.operator() {
            let right = self.term(depth)?;
            expression = Expression::Joined(Box::new(expression), operator, Box::new(right));
        }
        Ok(expression)
    }

    fn operator(&mut self) -> Option<Operator> {
        let operator = match self.next_char()? {
            '|' => Operator::Union,
            '&' => Operator::Intersection,
            '\\' => Operator::Complement,
            _ => return None,
        };
        self.at += 1;
        Some(operator)
    }

    /// An expression in parentheses, or a primitive.
    fn term(&mut self, depth: usize) -> Result<Expression, ExpressionError> {
        if self.next_char() != Some('(') {
            return self.primitive();
        }
        if depth == DEPTH_MAX {
            return Err(self.error(format!("there are more than {DEPTH_MAX} parentheses within one another")));
        }
        self.at += 1;
        let inner = self.joined(depth + 1)?;
        if self.next_char() != Some(')') {
            return Err(self.error("')' is expected".to_owned()));
        }
        self.at += 1;
        Ok(inner)
    }

    fn primitive(&mut self) -> Result<Expression, ExpressionError> {
        let word = self.word();
        if word.is_empty() {
            return Err(self.error("an endpoint, an attribute like region=eu, '*' or '(' is expected".to_owned()));
        }
        let comparison = match self.next_char() {
            Some('=') => Comparison::Equal,
            Some('<') => Comparison::Less,
            Some('>') => Comparison::Greater,
            _ if word == "*" => return Ok(Expression::All),
            _ => return Ok(Expression::Named(word)),
        };
        self.at += 1;
        self.next_char();
        let begins_at = self.at;
        let value = self.word();
        if value.is_empty() {
            return Err(self.error(format!("a value is expected behind {word}{}", comparison.symbol())));
        }
        if comparison != Comparison::Equal && value.parse::<f64>().is_err() {
            self.at = begins_at;
            return Err(self.error(format!("a number is expected: {value} cannot be larger or smaller")));
        }
        Ok(Expression::Attribute { key: word, comparison, value })
    }

    /// Letters, digits, `.`, `_`, `-`, `:` and `*`; empty if there are none.
    fn word(&mut self) -> String {
        let is_plain = |c: &char| c.is_alphanumeric() || "._-:*".contains(*c);
        let word: String = self.chars[self.at..].iter().copied().take_while(|c| is_plain(c)).collect();
        self.at += word.chars().count();
        word
    }
}
