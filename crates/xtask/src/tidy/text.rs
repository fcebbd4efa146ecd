//! A Rust file as the rules read it: its code with comments, strings and characters blanked, so that a word in a comment is not a
//! breach and a brace in a string does not close a block.

/// One Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path below the root, with slashes.
    pub path: String,
    /// The lines of the file.
    pub raw: Vec<String>,
    /// The lines without comments and literals.
    pub code: Vec<String>,
    /// For each line whether it is test code.
    pub test: Vec<bool>,
    /// Its functions.
    pub functions: Vec<Function>,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// The number of lines from there to its closing brace.
    pub lines: usize,
}

impl Source {
    /// Parses a file.
    pub fn new(path: &str, text: &str) -> Source {
        let masked = mask(text);
        let tests = test_spans(&masked);
        let in_test_file =
            path.split('/').any(|part| part == "tests" || part == "benches") || path.ends_with("/tests.rs");
        let raw: Vec<String> = text.lines().map(String::from).collect();
        let test = (1..=raw.len()).map(|n| in_test_file || tests.iter().any(|(a, b)| (*a..=*b).contains(&n))).collect();
        let code = masked.iter().collect::<String>().lines().map(String::from).collect();
        Source { path: path.into(), raw, code, test, functions: functions(&masked) }
    }

    /// The name of the crate that the file belongs to; empty for other files.
    pub fn crate_name(&self) -> &str {
        let mut parts = self.path.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(crate_name)) => crate_name,
            (Some("examples"), Some(_)) => "examples",
            _ => "",
        }
    }

    /// The lines of code with their numbers from 1, and whether they are test code.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        self.code.iter().zip(&self.test).enumerate().map(|(n, (line, test))| (n + 1, line.as_str(), *test))
    }
}

/// Whether a character can be part of a name.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a line, each with what follows it.
pub fn words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.find(is_word)?;
        let end = rest[start..].find(|c| !is_word(c)).map_or(rest.len(), |len| start + len);
        let word = &rest[start..end];
        rest = &rest[end..];
        Some((word, rest))
    })
}

/// Blanks comments and literals, but keeps line breaks.
fn mask(text: &str) -> Vec<char> {
    let chars: Vec<char> = text.chars().collect();
    let mut out = chars.clone();
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        match end {
            Some(end) => {
                out[at..end].iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
                at = end;
            }
            None => at += 1,
        }
    }
    out
}

/// The end of the comment or literal that starts at `at`; none if none does.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => Some(find(chars, at, |c| c == '\n')),
        '/' if next == Some('*') => Some(block_comment_end(chars, at)),
        '"' => Some(string_end(chars, at + 1)),
        'r' if raw_prefix(chars, at) => raw_string_end(chars, at + 1),
        '\'' if next == Some('\\') => Some((find(chars, at + 3, |c| c == '\'') + 1).min(chars.len())),
        '\'' if chars.get(at + 2) == Some(&'\'') => Some(at + 3),
        // A lifetime.
        _ => None,
    }
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|at| wanted(chars[*at])).unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut at = at;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') if depth == 1 => return at + 2,
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    chars.len()
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// Whether an `r` begins a raw literal: alone, or after the `b` or `c` of `br"…"` or `cr"…"`.
fn raw_prefix(chars: &[char], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|at| chars[at]);
    match before(1) {
        Some('b' | 'c') => !before(2).is_some_and(is_word),
        other => !other.is_some_and(is_word),
    }
}

fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let open = find(chars, at, |c| c != '#');
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let hashes = open - at;
    let closes = |end: &usize| {
        chars[*end] == '"' && chars[end + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    Some((open + 1..chars.len()).find(closes).map_or(chars.len(), |end| end + 1 + hashes))
}

fn line_of(code: &[char], at: usize) -> usize {
    1 + code[..at.min(code.len())].iter().filter(|c| **c == '\n').count()
}

/// The opening and closing braces of the body that follows `from`; none for a declaration.
fn body(code: &[char], from: usize) -> Option<(usize, usize)> {
    let mut nested = 0i32;
    let mut open = from;
    loop {
        match *code.get(open)? {
            '(' | '[' => nested += 1,
            ')' | ']' => nested -= 1,
            ';' if nested == 0 => return None,
            '{' if nested == 0 => break,
            _ => {}
        }
        open += 1;
    }
    let mut depth = 0;
    for (at, c) in code.iter().enumerate().skip(open) {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some((open, at)),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn functions(code: &[char]) -> Vec<Function> {
    let mut found = Vec::new();
    for at in 0..code.len().saturating_sub(3) {
        let starts_a_word = at == 0 || !is_word(code[at - 1]);
        // A type such as `fn(u8)` has no name.
        if !starts_a_word || code[at..at + 2] != ['f', 'n'] || !code[at + 2].is_whitespace() {
            continue;
        }
        let name = code[at + 2..].iter().skip_while(|c| c.is_whitespace()).take_while(|c| is_word(**c) || **c == '$');
        if let Some((_, end)) = body(code, at) {
            let line = line_of(code, at);
            found.push(Function { name: name.collect(), line, lines: line_of(code, end) - line + 1 });
        }
    }
    found
}

/// The first and last lines of all items with `#[cfg(test)]`.
fn test_spans(code: &[char]) -> Vec<(usize, usize)> {
    let marks = ["#[cfg(test)]", "#[cfg(all(test"].map(|mark| mark.chars().collect::<Vec<char>>());
    let mut found = Vec::new();
    for at in 0..code.len() {
        let Some(mark) = marks.iter().find(|mark| code[at..].starts_with(mark)) else { continue };
        // The rest of the attribute has no brace outside its own brackets.
        let after = find(code, at + mark.len() - 1, |c| c == ']') + 1;
        if let Some((_, end)) = body(code, after) {
            found.push((line_of(code, at), line_of(code, end)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        mask(text).into_iter().collect()
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        for (text, code) in [
            ("a // b", "a     "),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"a("b\"}{")c"#, "a(       )c"),
            ("r\"\\\" x", "     x"),
            ("br#\"\"}\"# x", "b        x"),
            ("r#type x", "r#type x"),
            ("'{' b'\\'' 'a: &'a T", "    b     'a: &'a T"),
            ("'\\u{7d}' x", "         x"),
            ("for r in x", "for r in x"),
            ("\"open", "     "),
        ] {
            assert_eq!(masked(text), code, "{text}");
        }
        assert_eq!(masked("\"a\nb\"\nc"), "  \n  \nc");
    }

    #[test]
    fn functions_are_measured() {
        let text = "trait T { fn declared(a: [u8; 3]); }
fn one() {}
pub(crate) async fn two<F: Fn(u8)>(
  f: fn(u8) -> u8,
) -> [u8; 2] {
  let s = \"}\";
  if x { y }
}
";
        let found = Source::new("crates/a/src/lib.rs", text).functions;
        let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(found, [("one", 2, 1), ("two", 3, 6)]);
    }

    #[test]
    fn test_code_is_recognised() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n";
        assert_eq!(Source::new("crates/a/src/lib.rs", text).test, [false, true, true, true, true, false]);
        assert!(Source::new("crates/a/tests/x.rs", text).test.iter().all(|t| *t));
        assert!(Source::new("crates/a/src/b/tests.rs", text).test.iter().all(|t| *t));
    }

    #[test]
    fn each_word_comes_with_the_text_after_it() {
        let found: Vec<_> =
            words("x.unwrap(); println!(a_b)").map(|(word, rest)| (word, rest.chars().next())).collect();
        assert_eq!(found, [("x", Some('.')), ("unwrap", Some('(')), ("println", Some('!')), ("a_b", Some(')'))]);
    }
}
