//! Lower-case hexadecimal: how bytes stand in files and names of ours.

/// Two digits a byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes; none where the text is not pairs of hexadecimal digits.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.len().is_multiple_of(2).then(|| text.as_bytes().chunks(2).map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        assert_eq!(encode(&[0, 0x7f, 0xff]), "007fff");
        assert_eq!(decode("007fFF"), Some(vec![0, 0x7f, 0xff]));
        assert_eq!((decode(""), decode("0"), decode("0g"), decode("é")), (Some(Vec::new()), None, None, None));
    }
}
