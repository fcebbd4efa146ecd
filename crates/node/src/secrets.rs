//! What a guest gave this node for another server, kept out of what is quoted of that server: its words go into answers, logs and
//! receipts, and a server may repeat what it was shown.

/// Values that nobody else is to read.
#[derive(Default)]
pub(crate) struct Secrets(Vec<String>);

/// A secret of fewer characters is none, and leaving it out of a sentence would leave little of the sentence.
const VALUE_CHARS_MIN: usize = 4;
/// Words of a value that are longer than this may be its secret part.
const WORD_CHARS: usize = 8;

impl Secrets {
    /// These values, and the longer words of each.
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

    /// A text of the other end without them, and without what these addresses say behind their question marks. The longest go
    /// first: a word may be part of another.
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
