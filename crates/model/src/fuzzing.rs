//! The parsers of text that people type and other programs write, as plain functions. The property tests run them in every `make test`;
//! `make fuzz` (`fuzz/` at the root of the workspace) runs them for a given time.
//!
//! Each function takes any bytes and must return without a panic. A parsed value is written as text, which must parse to the same value.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::locator::{Locator, NodePlace};
use crate::name::{NAME_BYTES_MAX, PATH_BYTES_MAX, RelPath};
use crate::units::{BitRate, Bytes};
use crate::{Algorithm, duration, v1};

/// Parses a locator, as people type it and as orders over the API have it.
pub fn locator(bytes: &[u8]) {
    let Ok(locator) = Locator::parse(OsStr::from_bytes(bytes)) else { return };
    let shown = locator.to_string();
    assert!(!shown.contains(char::is_control), "one line stays one line: {shown:?}");
    locator.into_dir();
    if let Locator::Node { place, .. } = &locator {
        assert_eq!(Locator::parse(OsStr::new(&shown)).as_ref(), Ok(&locator), "{shown} is parsed differently");
        if let NodePlace::Path { export, .. } = place {
            assert!(!export.contains(['/', ':']) && export != "..", "{export}");
        }
    }
}

/// Parses a path below a root.
pub fn path(bytes: &[u8]) {
    let Ok(path) = RelPath::parse(bytes) else { return };
    assert!(path.as_bytes().len() <= PATH_BYTES_MAX);
    assert_eq!(RelPath::parse(path.as_bytes()).as_ref(), Ok(&path), "a path is parsed differently");
    let names = path.as_bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    for name in names {
        assert!(name != b".." && name != b"." && name.len() <= NAME_BYTES_MAX && !name.contains(&0));
    }
    if let Some(name) = path.name() {
        assert_eq!(path.parent().join(&name), path, "a path is its parent and its name");
    }
    assert_eq!(path.below(&path.parent()).map(|below| path.parent().join_path(&below)), Some(path.clone()));
    assert!(!path.to_string().contains(char::is_control), "one line stays one line");
}

/// Parses a size, a rate, a time and the name of a checksum.
pub fn quantity(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(size) = text.parse::<Bytes>() {
        assert_eq!(size.0.to_string().parse(), Ok(size), "a size is parsed differently");
        size.to_string();
    }
    if let Ok(rate) = text.parse::<BitRate>() {
        assert!(rate.0 > 0, "nothing goes at a rate of 0");
        rate.to_string();
    }
    if let Ok(time) = duration::parse(&text) {
        duration::show(time);
    }
    if let Ok(algorithm) = text.parse::<Algorithm>() {
        assert_eq!(algorithm.name().parse(), Ok(algorithm), "a checksum's name is parsed differently");
    }
}

/// Parses JSON of other programs: receipts, jobs, orders to a node, and its answers.
pub fn json(bytes: &[u8]) {
    parses_again::<v1::Receipt>(bytes);
    parses_again::<v1::Change>(bytes);
    parses_again::<v1::node::Order>(bytes);
    parses_again::<v1::Transfer>(bytes);
    parses_again::<v1::Transfers>(bytes);
    parses_again::<v1::node::Health>(bytes);
    parses_again::<v1::node::Capabilities>(bytes);
    parses_again::<v1::node::Problem>(bytes);
}

fn parses_again<T: Serialize + DeserializeOwned + PartialEq>(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return };
    let again = serde_json::to_vec(&value).and_then(|written| serde_json::from_slice::<T>(&written));
    assert!(again.is_ok_and(|again| again == value), "{} is parsed differently", std::any::type_name::<T>());
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..100)) {
            super::locator(&bytes);
            super::path(&bytes);
            super::quantity(&bytes);
            super::json(&bytes);
        }

        #[test]
        fn text_like_a_locator_is_parsed_or_refused(begin in "lh://|LH://|s3://|zero:|me@far:|", host in "[a-z:.\\[\\]0-9%]{0,9}", rest in "[/a-z%.:0-9é\u{7}]{0,12}") {
            super::locator(format!("{begin}{host}{rest}").as_bytes());
            super::path(rest.as_bytes());
        }

        #[test]
        fn text_like_a_quantity_is_parsed_or_refused(number in "[0-9]{0,20}(\\.[0-9]{0,3})?", unit in " ?(k|M|G|Ti|µ|m)?(B|bit|b|s|min|h|d)?(/s|ps)?",
                                 name in "[A-Za-z]{2,7}-?[0-9]{0,3}") {
            super::quantity(format!("{number}{unit}").as_bytes());
            super::quantity(name.as_bytes());
        }
    }
}
