//! Metalinks: documents that name files, their sizes and digests, and the places of their replicas. Written as RFC 5854 with Rucio's
//! extensions; read in this form and in the older one of version 3.

use model::checksum::Digest;
use model::{Algorithm, RelPath};
use quick_xml::de::from_str;
use quick_xml::escape::escape;
use serde::Deserialize;

/// The media type.
pub const MEDIA: &str = "application/metalink4+xml";
/// The most bytes of a document that is read.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// The priority of a URL that states none (RFC 5854, section 4.2.16.3): after all others.
const LAST: u32 = 999_999;

/// A file to describe.
#[derive(Clone, Debug)]
pub struct MetalinkFile {
    /// Its name.
    pub name: String,
    /// `scope:name`.
    pub identity: String,
    /// The datasets that it belongs to.
    pub parents: Vec<String>,
    /// Its Adler-32.
    pub adler32: Option<String>,
    /// Its MD5.
    pub md5: Option<String>,
    /// Its size.
    pub bytes: i64,
    /// The URLs of its replicas, the preferred one first.
    pub urls: Vec<MetalinkUrl>,
}

/// A replica of a file to describe.
#[derive(Clone, Debug)]
pub struct MetalinkUrl {
    /// The name of its endpoint.
    pub endpoint: String,
    /// Its URL.
    pub address: String,
}

/// A file that a document describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedFile {
    /// Its path below the directory that it is copied to.
    pub path: RelPath,
    /// Its size, if stated.
    pub bytes: Option<u64>,
    /// The strongest of its digests that can be computed here.
    pub digest: Option<Digest>,
    /// The URLs of its replicas, the preferred one first.
    pub urls: Vec<String>,
}

/// Why a document is not a Metalink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetalinkError {
    /// It is too long.
    #[error("a Metalink of more than {DOCUMENT_BYTES_MAX} bytes")]
    TooLong,
    /// It is not well-formed, or another kind of document.
    #[error("not a Metalink: {0}")]
    Malformed(String),
    /// It describes nothing.
    #[error("the Metalink describes no file")]
    Empty,
    /// The name of a file leads out of the directory that it is copied to, or is no name.
    #[error("the Metalink names a file {0:?}, which is no path below a directory")]
    Name(String),
    /// A file without a place.
    #[error("the Metalink names no place of the file {0:?}")]
    NoUrl(String),
    /// A digest that has not the form of its algorithm.
    #[error("the Metalink has a digest of the file {name:?} that is wrong: {why}")]
    Digest {
        /// The file.
        name: String,
        /// Why.
        why: String,
    },
}

/// The root element of both versions.
#[derive(Deserialize)]
struct MetalinkElement {
    #[serde(default)]
    file: Vec<FileElement>,
    /// Version 3.
    files: Option<FilesElement>,
}

#[derive(Deserialize)]
struct FilesElement {
    #[serde(default)]
    file: Vec<FileElement>,
}

#[derive(Deserialize)]
struct FileElement {
    #[serde(rename = "@name")]
    name: String,
    size: Option<u64>,
    #[serde(default)]
    hash: Vec<HashElement>,
    #[serde(default)]
    url: Vec<UrlElement>,
    /// Version 3.
    verification: Option<VerificationElement>,
    /// Version 3.
    resources: Option<ResourcesElement>,
}

#[derive(Deserialize)]
struct VerificationElement {
    #[serde(default)]
    hash: Vec<HashElement>,
}

#[derive(Deserialize)]
struct ResourcesElement {
    #[serde(default)]
    url: Vec<UrlElement>,
}

#[derive(Deserialize)]
struct HashElement {
    #[serde(rename = "@type")]
    algorithm: String,
    #[serde(rename = "$text", default)]
    value: String,
}

#[derive(Deserialize)]
struct UrlElement {
    /// 1 is the best.
    #[serde(rename = "@priority")]
    priority: Option<u32>,
    /// Version 3: 100 is the best.
    #[serde(rename = "@preference")]
    preference: Option<u32>,
    #[serde(rename = "$text", default)]
    address: String,
}

impl UrlElement {
    /// The smaller, the better.
    fn rank(&self) -> u32 {
        self.priority.or_else(|| self.preference.map(|preference| 100_u32.saturating_sub(preference))).unwrap_or(LAST)
    }
}

/// How much a digest says about a file.
fn strength(algorithm: Algorithm) -> usize {
    use Algorithm::{Adler32, Blake3, Crc32c, Md5, Sha1, Sha256, Sha512};
    [Adler32, Crc32c, Md5, Sha1, Sha256, Blake3, Sha512].iter().position(|one| *one == algorithm).unwrap_or(0)
}

/// Reads a document.
///
/// # Errors
/// [`MetalinkError`]: it is too long, not a Metalink, or describes a file that could not be copied.
pub fn parse(text: &str) -> Result<Vec<DescribedFile>, MetalinkError> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(MetalinkError::TooLong);
    }
    let root: MetalinkElement = from_str(text).map_err(|error| MetalinkError::Malformed(error.to_string()))?;
    let older = root.files.map(|files| files.file).unwrap_or_default();
    let files: Vec<FileElement> = root.file.into_iter().chain(older).collect();
    if files.is_empty() {
        return Err(MetalinkError::Empty);
    }
    files.into_iter().map(described).collect()
}

fn described(file: FileElement) -> Result<DescribedFile, MetalinkError> {
    let path = RelPath::parse(file.name.as_bytes()).ok().filter(|path| !path.is_root() && !file.name.starts_with('/'));
    let path = path.ok_or_else(|| MetalinkError::Name(file.name.clone()))?;
    let mut digest: Option<Digest> = None;
    for hash in file.hash.iter().chain(file.verification.iter().flat_map(|all| &all.hash)) {
        // Digests by unknown algorithms say nothing here.
        let Ok(algorithm) = hash.algorithm.parse::<Algorithm>() else { continue };
        let found: Result<Digest, String> = format!("{algorithm}:{}", hash.value.trim()).parse();
        let found = found.map_err(|why| MetalinkError::Digest { name: file.name.clone(), why })?;
        if digest.is_none_or(|known| strength(known.algorithm()) < strength(algorithm)) {
            digest = Some(found);
        }
    }
    let mut urls: Vec<UrlElement> =
        file.url.into_iter().chain(file.resources.into_iter().flat_map(|all| all.url)).collect();
    urls.retain(|url| !url.address.trim().is_empty());
    urls.sort_by_key(UrlElement::rank);
    if urls.is_empty() {
        return Err(MetalinkError::NoUrl(file.name));
    }
    let urls = urls.into_iter().map(|url| url.address.trim().to_owned()).collect();
    Ok(DescribedFile { path, bytes: file.size, digest, urls })
}

/// Writes the document of some files.
pub fn write(files: &[MetalinkFile]) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\n",
    );
    for file in files {
        text += &format!(" <file name=\"{}\">\n", escape(&file.name));
        if !file.parents.is_empty() {
            text += "  <parents>\n";
            file.parents.iter().for_each(|parent| text += &format!("   <did>{}</did>\n", escape(parent)));
            text += "  </parents>\n";
        }
        text += &format!("  <identity>{}</identity>\n", escape(&file.identity));
        for (algorithm, value) in [("adler32", &file.adler32), ("md5", &file.md5)] {
            if let Some(value) = value {
                text += &format!("  <hash type=\"{algorithm}\">{}</hash>\n", escape(value));
            }
        }
        text += &format!("  <size>{}</size>\n", file.bytes);
        for (at, url) in file.urls.iter().enumerate() {
            text += &format!(
                "  <url location=\"{}\" domain=\"wan\" priority=\"{}\" client_extract=\"false\">{}</url>\n",
                escape(&url.endpoint),
                at + 1,
                escape(&url.address)
            );
        }
        text += " </file>\n";
    }
    text + "</metalink>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_ALL: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<metalink xmlns="urn:ietf:params:xml:ns:metalink">
  <generator>any</generator>
  <file name="run/a&amp;b.root">
    <size>7</size>
    <hash type="adler32">a0b0c0d</hash>
    <url location="fr" priority="2">https://one.example/a%26b.root</url>
    <hash type="sha-256">e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855</hash>
    <url>davs://last.example/a&amp;b.root</url>
    <hash type="md6">00</hash>
    <url priority="1">root://two.example//data/a&amp;b.root</url>
  </file>
</metalink>"#;

    #[test]
    fn a_document_is_read_with_its_best_digest_and_places() {
        let files = parse(WITH_ALL).unwrap();
        let [file] = &files[..] else { panic!("{files:?}") };
        assert_eq!((file.path.as_bytes(), file.bytes), (&b"run/a&b.root"[..], Some(7)));
        assert_eq!(file.digest.unwrap().algorithm(), Algorithm::Sha256);
        assert_eq!(
            file.urls,
            ["root://two.example//data/a&b.root", "https://one.example/a%26b.root", "davs://last.example/a&b.root"]
        );
    }

    #[test]
    fn a_document_of_version_3_is_read() {
        let text = r#"<metalink version="3.0" xmlns="http://www.metalinker.org/"><files><file name="f"><size>1</size>
            <verification><hash type="md5">d41d8cd98f00b204e9800998ecf8427e</hash></verification>
            <resources><url type="http" preference="10">http://b/f</url><url type="http" preference="90">http://a/f</url></resources>
            </file></files></metalink>"#;
        let files = parse(text).unwrap();
        assert_eq!(files[0].urls, ["http://a/f", "http://b/f"]);
        assert_eq!(files[0].digest.unwrap().algorithm(), Algorithm::Md5);
    }

    #[test]
    fn a_document_that_cannot_be_followed_is_refused() {
        let with_name = |name: &str| parse(&WITH_ALL.replace("run/a&amp;b.root\">", &format!("{name}\">")));
        for name in ["../etc/passwd", "/etc/passwd", "", "a/../../b"] {
            assert!(matches!(with_name(name), Err(MetalinkError::Name(_))), "{name}");
        }
        assert!(matches!(parse("not xml"), Err(MetalinkError::Malformed(_) | MetalinkError::Empty)));
        assert_eq!(parse("<metalink></metalink>"), Err(MetalinkError::Empty));
        let short = WITH_ALL.replace("<hash type=\"adler32\">a0b0c0d", "<hash type=\"adler32\">xyz");
        assert!(matches!(parse(&short), Err(MetalinkError::Digest { .. })));
        let nowhere = "<metalink><file name=\"f\"><size>1</size></file></metalink>";
        assert_eq!(parse(nowhere), Err(MetalinkError::NoUrl("f".to_owned())));
    }

    #[test]
    fn what_is_written_is_read() {
        let urls = ["https://h:1/a&b", "root://h//c"]
            .map(|address| MetalinkUrl { endpoint: "e".into(), address: address.into() });
        let file = MetalinkFile {
            name: "a&<b>".into(),
            identity: "s:a".into(),
            parents: Vec::new(),
            adler32: Some("0a0b0c0d".into()),
            md5: None,
            bytes: 7,
            urls: urls.to_vec(),
        };
        let read = parse(&write(&[file])).unwrap();
        assert_eq!(
            (read[0].path.as_bytes(), &*read[0].urls[0], &*read[0].urls[1]),
            (&b"a&<b>"[..], "https://h:1/a&b", "root://h//c")
        );
        assert_eq!(read[0].digest.unwrap().to_string(), "adler32:0a0b0c0d");
    }

    #[test]
    fn a_document_has_the_elements_of_its_file() {
        let file = MetalinkFile {
            name: "a&b".into(),
            identity: "s:a&b".into(),
            parents: vec!["s:d".into()],
            adler32: Some("0a0b0c0d".into()),
            md5: None,
            bytes: 7,
            urls: vec![MetalinkUrl { endpoint: "cern".into(), address: "https://h:1/a&b".into() }],
        };
        let text = write(&[file]);
        for part in [
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">",
            "<file name=\"a&amp;b\">",
            "<did>s:d</did>",
            "<identity>s:a&amp;b</identity>",
            "<hash type=\"adler32\">0a0b0c0d</hash>",
            "<size>7</size>",
            "<url location=\"cern\" domain=\"wan\" priority=\"1\" client_extract=\"false\">https://h:1/a&amp;b</url>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
