//! Lower-case hexadecimal, as Longhaul writes bytes in its own files and file names.

/// Encodes bytes, two digits for each.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Decodes digits of either case; none where the text is not pairs of hexadecimal digits.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.len().is_multiple_of(2).then(|| text.as_bytes().chunks(2).map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded_in_lower_case_and_decoded_from_either() {
        assert_eq!(encode(&[0, 0x7f, 0xff]), "007fff");
        assert_eq!(decode("007fFF"), Some(vec![0, 0x7f, 0xff]));
        assert_eq!((decode(""), decode("0"), decode("0g"), decode("é")), (Some(Vec::new()), None, None, None));
    }
}
