//! Hides the secrets that a client gave this node for another server. Texts of that server go into answers, logs and receipts, and
//! the server may repeat a secret in them.

/// Secret values.
#[derive(Default)]
pub(crate) struct Secrets(Vec<String>);

/// Shorter values are no secrets, and hiding them would leave little of a text.
const VALUE_CHARS_MIN: usize = 4;
/// Words of a value that are longer than this may be its secret part.
const WORD_CHARS: usize = 8;

impl Secrets {
    /// Secrets of these values, and of the longer words of each.
    pub fn of<T: AsRef<str>>(values: impl Iterator<Item = T>) -> Secrets {
        let mut all = Vec::new();
        for value in values {
            let value = value.as_ref().trim();
            if value.chars().count() >= VALUE_CHARS_MIN {
                all.push(value.to_owned());
            }
            all.extend(long_words(value));
        }
        Secrets(all)
    }

    /// Hides the secrets in a text of the other server, and the long words of the queries of these addresses. The longest are replaced
    /// first, because a word may be part of another.
    pub fn hide(&self, text: &str, urls: &[&str]) -> String {
        let queries = urls.iter().filter_map(|url| url.split_once('?')).flat_map(|(_, query)| long_words(query));
        let mut all: Vec<String> = self.0.iter().cloned().chain(queries).collect();
        all.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        all.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }
}

/// The words of a value, or of a query, that are long enough to be a secret.
fn long_words(value: &str) -> impl Iterator<Item = String> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '&' | '=' | ',' | ';' | '"');
    value.split(ends).filter(|word| word.chars().count() > WORD_CHARS).map(str::to_owned)
}
