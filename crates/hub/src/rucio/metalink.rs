//! Metalinks (RFC 5854) with Rucio's extensions.

use quick_xml::escape::escape;

/// The media type.
pub(super) const MEDIA: &str = "application/metalink4+xml";

/// A file.
pub(super) struct MetalinkFile {
    pub name: String,
    /// `scope:name`.
    pub identity: String,
    pub parents: Vec<String>,
    pub adler32: Option<String>,
    pub md5: Option<String>,
    pub bytes: i64,
    /// The URLs of its replicas, the preferred one first.
    pub urls: Vec<MetalinkUrl>,
}

/// A replica of the file.
pub(super) struct MetalinkUrl {
    pub endpoint: String,
    pub address: String,
}

/// Writes the document of some files.
pub(super) fn write(files: &[MetalinkFile]) -> String {
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
