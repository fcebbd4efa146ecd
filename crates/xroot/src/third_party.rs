//! Third-party copies: the parameters of the opens with which a client makes two servers copy a file between them.
//!
//! The client makes a key and tells it both servers. It opens the target with the key, the source and the copy's size; then the source
//! with the key and the target. The target opens the source with the key and the client's name, which is how the source knows that the
//! client allows it.

use crate::place::RootPath;

/// The part that an open has in a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyRole {
    /// The client asks whether the file is there; a copy may follow.
    Placement,
    /// This server is the target. It will open the source.
    Target(CopySource),
    /// This server is the source, and a client announces its target.
    Announced {
        /// The key.
        key: String,
        /// The host of the target.
        target: String,
        /// How long the announcement is valid, seconds, if the client says so.
        lifetime_s: Option<u64>,
    },
    /// This server is the source, and the target opens the file.
    Fetched {
        /// The key.
        key: String,
        /// The client for whom it copies.
        origin: String,
    },
}

/// Where the target of a copy finds the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// The key; none if the client delegates a credential instead.
    pub key: Option<String>,
    /// `HOST:PORT`.
    pub host: String,
    /// The path there.
    pub path: Option<String>,
    /// Parameters of the source's address.
    pub parameters: Vec<(String, String)>,
    /// The scheme of the source, if the client says so.
    pub scheme: Option<String>,
    /// `ALGORITHM[:VALUE]` of a checksum to compare.
    pub checksum: Option<String>,
    /// Bytes of the file.
    pub size: Option<u64>,
    /// Streams to use.
    pub streams: Option<u32>,
    /// The client delegates its credential.
    pub is_delegated: bool,
}

impl CopyRole {
    /// The part of an open in a copy; none if it has no part in one.
    ///
    /// # Errors
    /// The parameters contradict each other; the reason.
    pub fn of(place: &RootPath) -> Result<Option<CopyRole>, &'static str> {
        let parameter = |name: &str| place.parameter(name).filter(|value| !value.is_empty());
        let key = parameter("tpc.key");
        if key.is_none() && parameter("tpc.stage").as_deref() == Some("placement") {
            return Ok(Some(CopyRole::Placement));
        }
        let (source, target, origin) = (parameter("tpc.src"), parameter("tpc.dst"), parameter("tpc.org"));
        let is_delegated = parameter("tpc.dlgon").as_deref() == Some("1");
        match (key, source, target, origin) {
            (None, None, None, None) => Ok(None),
            (Some(key), None, Some(target), None) => {
                let lifetime_s = parameter("tpc.ttl").and_then(|text| text.parse().ok());
                Ok(Some(CopyRole::Announced { key, target, lifetime_s }))
            }
            (Some(key), None, None, Some(origin)) => Ok(Some(CopyRole::Fetched { key, origin })),
            (key, Some(host), None, None) if key.is_some() || is_delegated => {
                Ok(Some(CopyRole::Target(source_of(place, key, host, is_delegated))))
            }
            _ => Err("the parameters of the third-party copy contradict each other"),
        }
    }
}

fn source_of(place: &RootPath, key: Option<String>, host: String, is_delegated: bool) -> CopySource {
    let parameter = |name: &str| place.parameter(name).filter(|value| !value.is_empty());
    let inner = parameter("tpc.scgi").unwrap_or_default();
    let own = |name: &str| ["tpc.", "xrd.", "xrdcl."].iter().any(|prefix| name.starts_with(prefix));
    let parameters = inner.split('\t').filter_map(|pair| pair.split_once('=')).filter(|(name, _)| !own(name));
    let host = if is_delegated { parameter("tpc.dlg").unwrap_or(host) } else { host };
    CopySource {
        key: key.filter(|_| !is_delegated),
        host,
        path: parameter("tpc.lfn"),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        scheme: parameter("tpc.spr"),
        checksum: parameter("tpc.cks"),
        size: parameter("oss.asize").and_then(|text| text.parse().ok()),
        streams: parameter("tpc.str").and_then(|text| text.parse().ok()),
        is_delegated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(text: &str) -> Result<Option<CopyRole>, &'static str> {
        CopyRole::of(&RootPath::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn each_open_of_a_copy_is_recognised() {
        assert_eq!(role("/f?oss.asize=1"), Ok(None));
        assert_eq!(role("/f?tpc.stage=placement"), Ok(Some(CopyRole::Placement)));
        let announced = CopyRole::Announced { key: "k1".into(), target: "dst.example".into(), lifetime_s: Some(9) };
        assert_eq!(role("/f?tpc.key=k1&tpc.dst=dst.example&tpc.ttl=9&tpc.stage=copy"), Ok(Some(announced)));
        let fetched = CopyRole::Fetched { key: "k1".into(), origin: "ann.7@laptop".into() };
        assert_eq!(role("/f?tpc.key=k1&tpc.org=ann.7@laptop"), Ok(Some(fetched)));
        let Ok(Some(CopyRole::Target(source))) = role(
            "/t?tpc.key=k1&tpc.src=src.example:1094&tpc.lfn=/data/f&tpc.cks=adler32&oss.asize=12&tpc.str=4&tpc.stage=copy",
        ) else {
            panic!("no target")
        };
        assert_eq!((source.host.as_str(), source.path.as_deref()), ("src.example:1094", Some("/data/f")));
        assert_eq!((source.size, source.streams, source.key.as_deref()), (Some(12), Some(4), Some("k1")));
    }

    #[test]
    fn a_delegated_copy_has_no_key_and_keeps_only_the_parameters_of_the_source() {
        let Ok(Some(CopyRole::Target(source))) =
            role("/t?tpc.src=a:1&tpc.dlg=b:2&tpc.dlgon=1&tpc.scgi=authz=x\ttpc.key=y\txrd.z=1&tpc.lfn=/f")
        else {
            panic!("no target")
        };
        assert_eq!((source.key, source.host.as_str(), source.is_delegated), (None, "b:2", true));
        assert_eq!(source.parameters, [("authz".to_owned(), "x".to_owned())]);
    }

    #[test]
    fn contradictions_are_refused() {
        for text in
            ["/f?tpc.key=k", "/f?tpc.key=k&tpc.dst=a&tpc.org=b", "/f?tpc.src=a", "/f?tpc.key=k&tpc.src=a&tpc.dst=b"]
        {
            assert!(role(text).is_err(), "{text}");
        }
    }
}
