//! Pages of a bucket's listing. A key can be any text, and some keys are not paths: `a//b` has an empty name in it. The library
//! refuses a whole page for one such key. So these keys are removed before the library reads the page, and reported beside it.

use std::borrow::Cow;

use model::Fault;
use model::name::Name;
use object_store::ObjectMeta;
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::Event;

use super::drive::drive;
use crate::facts_cache::Entry;
use crate::request_error::RequestError;

/// The keys of a page that are not paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PathlessKeys(pub Vec<String>);

/// The entries right below a prefix.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub dirs: Vec<Path>,
    pub objects: Vec<ObjectMeta>,
    /// Keys, or common prefixes of keys, that are not paths.
    pub pathless: Vec<String>,
}

/// Lists the entries right below a prefix: all of them, or pages until one is found.
pub(super) fn list(store: &AmazonS3, dir: &Path, all: bool) -> object_store::Result<Listing> {
    let prefix = if dir.as_ref().is_empty() { None } else { Some(format!("{dir}/")) };
    let (mut listing, mut page_token) = (Listing::default(), None);
    loop {
        let delimiter = Some(Cow::Borrowed("/"));
        // The first may be the directory's own marker.
        let max_keys = if all { None } else { Some(2) };
        let options = PaginatedListOptions { delimiter, max_keys, page_token, ..PaginatedListOptions::default() };
        let page = drive(store.list_paginated(prefix.as_deref(), options))?;
        listing.dirs.extend(page.result.common_prefixes);
        // Consoles mark a directory with an empty object of its name.
        listing.objects.extend(page.result.objects.into_iter().filter(|meta| meta.location != *dir));
        listing.pathless.extend(page.result.extensions.get::<PathlessKeys>().cloned().unwrap_or_default().0);
        page_token = page.page_token;
        let found = listing.dirs.len() + listing.objects.len() + listing.pathless.len() > 0;
        if page_token.is_none() || found && !all {
            return Ok(listing);
        }
    }
}

fn makes_a_path(key: &str) -> bool {
    !key.starts_with('/') && Path::parse(key).is_ok()
}

/// A page without the keys that are not paths, and those keys. `None` where all keys are paths, or where the page does not parse: then
/// the library reports the error.
pub(super) fn without_pathless(page: &[u8]) -> Option<(Vec<u8>, PathlessKeys)> {
    let mut reader = Reader::from_reader(page);
    let (mut kept, mut pathless, mut taken) = (Vec::new(), Vec::new(), 0);
    let (mut depth, mut entry, mut text, mut key) = (0, None, None, None);
    loop {
        let before = usize::try_from(reader.buffer_position()).ok()?;
        let event = reader.read_event().ok()?;
        let after = usize::try_from(reader.buffer_position()).ok()?;
        match event {
            Event::Start(start) => {
                depth += 1;
                match (depth, start.local_name().as_ref()) {
                    (2, b"Contents" | b"CommonPrefixes") => (entry, key) = (Some(before), None),
                    (3, b"Key" | b"Prefix") if entry.is_some() => text = Some(after),
                    _ => {}
                }
            }
            Event::End(_) => {
                if depth == 3
                    && let Some(from) = text.take()
                {
                    let raw = std::str::from_utf8(&page[from..before]).ok()?;
                    // A reference to a character that XML does not allow is not allowed in a name either.
                    key = Some(unescape(raw).unwrap_or(Cow::Borrowed(raw)).into_owned());
                }
                if depth == 2
                    && let Some(from) = entry.take()
                    && let Some(key) = key.take().filter(|key| !makes_a_path(key))
                {
                    kept.extend_from_slice(&page[taken..from]);
                    taken = after;
                    pathless.push(key);
                }
                depth -= 1;
            }
            Event::Eof => break,
            _ => {}
        }
    }
    kept.extend_from_slice(&page[taken..]);
    (!pathless.is_empty()).then_some((kept, PathlessKeys(pathless)))
}

/// The entry that stands for a key without a path in the listing of a directory: `?` and the part of the key that a name can hold,
/// with the reason.
pub(super) fn placeholder(key: &str, dir: &Path) -> Option<Entry> {
    let below = key.strip_prefix(dir.as_ref()).unwrap_or(key);
    let below = if dir.as_ref().is_empty() { below } else { below.strip_prefix('/').unwrap_or(below) };
    let below = below.strip_suffix('/').unwrap_or(below);
    let plain = |c: char| if c.is_control() || c == '/' { '?' } else { c };
    let name = Name::new(format!("?{}", below.chars().map(plain).collect::<String>()).as_bytes()).ok()?;
    let why =
        format!("the bucket has {key:?}, which makes no path: a name in it is empty, dots or has control characters");
    Some((name, Err(RequestError { fault: Fault::Storage, ..RequestError::protocol_error(why) })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
<Name>b</Name><Prefix>d/</Prefix><Contents><Key>d/f&amp;g</Key><Size>1</Size></Contents>\
<Contents><Size>2</Size><Key>d/a&#x1;b</Key></Contents>\n<CommonPrefixes><Prefix>d//</Prefix></CommonPrefixes>\
<CommonPrefixes><Prefix>d/sub/</Prefix></CommonPrefixes></ListBucketResult>";

    #[test]
    fn keys_that_are_not_paths_are_removed_from_a_page() {
        let (kept, PathlessKeys(pathless)) = without_pathless(PAGE.as_bytes()).unwrap();
        assert_eq!(pathless.len(), 2);
        assert_eq!(pathless[1], "d//");
        let kept = String::from_utf8(kept).unwrap();
        assert!(kept.contains("f&amp;g") && kept.contains("d/sub/") && kept.contains("<Prefix>d/</Prefix>"), "{kept}");
        assert!(!kept.contains("#x1") && !kept.contains("d//") && kept.ends_with("</ListBucketResult>"), "{kept}");
        assert_eq!(without_pathless(kept.as_bytes()), None, "the rest is as it was");
        assert_eq!(without_pathless(b"<a><Contents><Key>x//y</Key>"), None);
    }

    #[test]
    fn a_placeholder_names_the_key_that_it_stands_for() {
        let names = |dir: &str| {
            let dir = Path::parse(dir).unwrap();
            move |key: &str| placeholder(key, &dir).unwrap().0.to_string()
        };
        assert_eq!(["d//", "d/./", "d/a\u{1}b"].map(|key| names("d")(key)), ["?", "?.", "?a?b"]);
        assert_eq!(["/", "/x"].map(|key| names("")(key)), ["?", "??x"]);
        let why = placeholder("d//", &Path::parse("d").unwrap()).unwrap().1.unwrap_err().why;
        assert!(why.contains("\"d//\""), "{why}");
    }
}
