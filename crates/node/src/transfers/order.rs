//! Reads an order of a transfer: the end on this node, the other end, and the options. No server is asked yet; an invalid order is
//! refused here, in one sentence.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use auth::{AccessKey, Fingerprint};
use model::checksum::Digest;
use model::fault::Fault;
use model::locator::NodePlace;
use model::spec::{self, LiveSettings};
use model::v1;
use model::v1::Change;
use model::v1::node::{Options, Order, OrderFile};
use model::{Algorithm, Expected, HostPort, Locator, Refusal};

use super::file_list::{self, NamedFiles};
use super::remote_end;
use wire::limits::{FILTERS_MAX, TEXT_BYTES_MAX};

/// Sources of one transfer.
const SOURCES_MAX: usize = 10_000;
/// How long a transfer is tried again without progress, by default: as `longhaul cp` does.
const RETRY_FOR: Duration = Duration::from_secs(15 * 60);
/// How long a transfer waits for a full target, by default: as `longhaul cp` does.
const WAIT_SPACE: Duration = Duration::from_secs(10 * 60);
/// The longest time that an order may set for both: a waiting transfer counts as running, and the number of those
/// is bounded.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// The name of a congestion control in the kernel is shorter than this.
const CONGESTION_BYTES: usize = 16;
/// Streams of a transfer with a server: each waits for that server's answers, file by file, however short the path from this node
/// to itself is.
const SERVER_STREAMS: u32 = 16;

/// The other end of a transfer, and its direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OtherEnd {
    /// From here to a place on another node.
    Push { to: HostPort, place: NodePlace },
    /// From places on another node to here.
    Pull { from: HostPort, places: Vec<NodePlace> },
    /// From here to a server.
    PushToServer(String),
    /// From a server to here.
    PullFromServer(Vec<String>),
}

/// An order that has been read.
#[derive(Debug)]
pub(crate) struct TransferPlan {
    /// The end on this node: sources, or the one target.
    pub here: Vec<NodePlace>,
    /// The other end.
    pub other_end: OtherEnd,
    /// The options of the engine.
    pub options: spec::Options,
    /// Keys to the other node.
    pub keys: Vec<AccessKey>,
    /// The fingerprint of the other node.
    pub node: Option<Fingerprint>,
    /// How long the transfer is tried again without progress.
    pub retry_for: Duration,
    /// The files, if they were named one by one: the source and the target are then their common directories.
    pub files: Option<NamedFiles>,
}

impl TransferPlan {
    /// The address of the other end, for people.
    pub fn other_address(&self) -> String {
        match &self.other_end {
            OtherEnd::Push { to, .. } | OtherEnd::Pull { from: to, .. } => to.to_string(),
            OtherEnd::PushToServer(url) => shown(url),
            OtherEnd::PullFromServer(urls) => urls.first().map_or_else(String::new, |url| shown(url)),
        }
    }
}

/// The places of one end, which all lie on one host.
#[derive(Debug)]
enum OrderEnd {
    Here(Vec<NodePlace>),
    Node(HostPort, Vec<NodePlace>),
    Server(Vec<String>),
}

fn wrong(reason: impl Into<String>) -> Refusal {
    Refusal::new(Fault::Config, reason)
}

/// The locator of a place in an order.
///
/// # Errors
/// The text is not a locator, or holds a user or key.
pub(crate) fn locator(text: &str) -> Result<Locator, Refusal> {
    // A place on this node is written like the part after the host of another node's locator.
    let authority = text.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    if authority.contains('@') {
        // Not repeated: this part is often a secret.
        return Err(wrong("an address of an order must not name a user or a key; put these into its credentials"));
    }
    let whole = if text.starts_with('/') { format!("lh://here{text}") } else { text.to_owned() };
    let parsed = Locator::parse(OsStr::new(&whole));
    parsed.map_err(|error| {
        wrong(if whole.contains('?') { "a place of the order is not valid".into() } else { error.to_string() })
    })
}

fn is_server_scheme(scheme: &str) -> bool {
    super::SCHEMES.contains(&scheme)
}

fn end(texts: &[String]) -> Result<OrderEnd, Refusal> {
    let not_together = || wrong("the sources of one transfer are all on this node, or all on one other node or server");
    let mut found: Option<OrderEnd> = None;
    for text in texts {
        let one = match locator(text)? {
            Locator::Node { place: NodePlace::Exports, .. } => {
                return Err(wrong(format!("{text} names a node as a whole; name a path: /EXPORT/PATH")));
            }
            Locator::Node { place, .. } if text.starts_with('/') => OrderEnd::Here(vec![place]),
            Locator::Node { at, place, .. } => OrderEnd::Node(at, vec![place]),
            Locator::Remote { scheme, url } if is_server_scheme(&scheme) => OrderEnd::Server(vec![url]),
            other => {
                let reason = format!(
                    "{other} cannot be an end of a transfer; write /EXPORT/PATH for a place of this node, and \
                     lh://HOST/EXPORT/PATH, https://HOST/PATH or s3://BUCKET/KEY for the other end"
                );
                return Err(wrong(reason));
            }
        };
        found = Some(match (found, one) {
            (None, one) => one,
            (Some(OrderEnd::Here(mut all)), OrderEnd::Here(one)) => {
                all.extend(one);
                OrderEnd::Here(all)
            }
            (Some(OrderEnd::Node(at, mut all)), OrderEnd::Node(other, one)) if at == other => {
                all.extend(one);
                OrderEnd::Node(at, all)
            }
            (Some(OrderEnd::Server(mut all)), OrderEnd::Server(one)) => {
                all.extend(one);
                OrderEnd::Server(all)
            }
            _ => return Err(not_together()),
        });
    }
    found.ok_or_else(|| wrong("an order names at least one source"))
}

/// A place for people, without its query, which often holds a secret.
pub(crate) fn shown(text: &str) -> String {
    text.split_once('?').map_or_else(|| text.to_owned(), |(place, _)| format!("{place}?…"))
}

/// The first sources of an order, at least one: those that are shown once it has ended.
pub(crate) fn first_sources(sources: &[String]) -> Vec<String> {
    let mut left = ENDED_SOURCES_BYTES;
    let fits = |text: &&String| {
        let fits = left == ENDED_SOURCES_BYTES || text.len() <= left;
        left = left.saturating_sub(text.len());
        fits
    };
    sources.iter().take_while(fits).cloned().collect()
}

/// Bytes of the sources that are shown of an ended transfer.
const ENDED_SOURCES_BYTES: usize = 16 << 10;

/// An order without its secrets: the part that is compared with other orders, and kept once the transfer has ended.
pub(crate) fn bare(order: &Order) -> Order {
    let source = order.source.iter().map(|text| bare_place(text)).collect();
    let bare_file = |file: &OrderFile| OrderFile {
        source: bare_place(&file.source),
        target: bare_place(&file.target),
        bytes: file.bytes,
        checksum: file.checksum.clone(),
    };
    let files = order.files.iter().map(bare_file).collect();
    Order { source, target: bare_place(&order.target), files, ..order.without_credentials() }
}

/// A place without the query of an address. In a path of this node a question mark is an ordinary character.
fn bare_place(text: &str) -> String {
    if text.contains("://") { shown(text) } else { text.to_owned() }
}

/// Source and target as they are shown; for files that were named one by one their common directories.
pub(crate) fn ends(order: &Order) -> (Vec<String>, String) {
    let common = |of: fn(&OrderFile) -> &str| {
        file_list::common_directory(order.files.iter().map(of)).map(|(directory, _)| directory)
    };
    match (common(|file| &file.source), common(|file| &file.target)) {
        (Ok(source), Ok(target)) if !order.files.is_empty() => (vec![source], target),
        _ => {
            let shown = bare(order);
            (shown.source, shown.target)
        }
    }
}

/// Reads an order.
///
/// # Errors
/// The order is invalid; the refusal says why.
pub(crate) fn read(order: &Order) -> Result<TransferPlan, Refusal> {
    remote_end::certificate(order.credentials.as_ref())?;
    if !order.files.is_empty() {
        return read_files(order);
    }
    if order.source.len() > SOURCES_MAX {
        return Err(wrong(format!("a transfer has at most {SOURCES_MAX} sources; name a directory above them")));
    }
    let into = order.source.len() > 1 || locator(&order.target)?.into_dir();
    let (here, other_end) = split_ends(end(&order.source)?, end(std::slice::from_ref(&order.target))?)?;
    let options = options(&order.options, into)?;
    let all = || order.source.iter().chain([&order.target]).filter_map(|text| locator(text).ok());
    let is_memory = |l: &Locator| matches!(l, Locator::Node { place: NodePlace::Null | NodePlace::Zero(_), .. });
    if options.checksums.is_empty() && !all().any(|locator| is_memory(&locator)) {
        return Err(wrong("checksums can be left out for null: and zero: only; data that is kept is verified"));
    }
    if let Some(name) = &order.congestion
        && (name.len() >= CONGESTION_BYTES || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)))
    {
        return Err(wrong("congestion names a congestion control of the kernel, such as bbr"));
    }
    let (keys, node) = identity(order, &other_end)?;
    let retry_for = order.retry_for_s.map_or(RETRY_FOR, Duration::from_secs).min(WAIT_MAX);
    Ok(TransferPlan { here, other_end, options, keys, node, retry_for, files: None })
}

/// The places of the end on this node, and the other end.
fn split_ends(source: OrderEnd, target: OrderEnd) -> Result<(Vec<NodePlace>, OtherEnd), Refusal> {
    Ok(match (source, target) {
        (OrderEnd::Here(here), OrderEnd::Node(to, mut places)) => {
            (here, OtherEnd::Push { to, place: places.remove(0) })
        }
        (OrderEnd::Node(from, places), OrderEnd::Here(here)) => (here, OtherEnd::Pull { from, places }),
        (OrderEnd::Here(here), OrderEnd::Server(mut urls)) => (here, OtherEnd::PushToServer(urls.remove(0))),
        (OrderEnd::Server(urls), OrderEnd::Here(here)) => (here, OtherEnd::PullFromServer(urls)),
        _ => return Err(wrong("exactly one end of a transfer is a place of this node: /EXPORT/PATH")),
    })
}

/// Reads an order that names its files one by one: a transfer from the common directory of the sources to that of the targets.
fn read_files(order: &Order) -> Result<TransferPlan, Refusal> {
    if !order.source.is_empty() || !order.target.is_empty() {
        return Err(wrong("an order names files, or source and target, and not both"));
    }
    if order.files.len() > SOURCES_MAX {
        return Err(wrong(format!("a transfer has at most {SOURCES_MAX} files; order several transfers")));
    }
    let (source, sources) = file_list::common_directory(order.files.iter().map(|file| file.source.as_str()))?;
    let (target, targets) = file_list::common_directory(order.files.iter().map(|file| file.target.as_str()))?;
    let options = Options { recursive: true, ..order.options.clone() };
    let as_tree = Order { source: vec![source], target, files: Vec::new(), options, ..order.clone() };
    let expected = order.files.iter().map(expected).collect::<Result<Vec<_>, _>>()?;
    let mut plan = read(&as_tree)?;
    add_digests(&mut plan.options, &order.options, &expected);
    let named = NamedFiles::new(sources.into_iter().zip(targets).zip(expected))?;
    Ok(TransferPlan { files: Some(named), ..plan })
}

/// The expected size and digest of a file of an order.
fn expected(file: &OrderFile) -> Result<Expected, Refusal> {
    let digest = file.checksum.as_deref().map(str::parse::<Digest>).transpose();
    let digest = digest.map_err(|reason| wrong(format!("the checksum of {}: {reason}", bare_place(&file.target))))?;
    Ok(Expected { bytes: file.bytes, digest })
}

/// Adds the digests that are needed to compare files with their expected digests.
fn add_digests(options: &mut spec::Options, ordered: &Options, expected: &[Expected]) {
    let wanted: BTreeSet<Algorithm> = expected.iter().filter_map(|file| Some(file.digest?.algorithm())).collect();
    if wanted.is_empty() {
        return;
    }
    // The CRC-32C of a small file is sent with its bytes; with Adler-32, which costs as little, the end of each file is a message of
    // its own that carries the digests.
    for algorithm in wanted.into_iter().chain([Algorithm::Adler32]) {
        if !options.checksums.contains(&algorithm) {
            options.checksums.push(algorithm);
        }
    }
    // An existing file is compared by its digest.
    if ordered.sync.is_none() {
        options.sync = spec::Sync::Digest;
    }
}

/// The keys to the other node, and its fingerprint. An unknown node is not trusted on first use, because no person can confirm it.
fn identity(order: &Order, other_end: &OtherEnd) -> Result<(Vec<AccessKey>, Option<Fingerprint>), Refusal> {
    let at = match other_end {
        OtherEnd::Push { to: at, .. } | OtherEnd::Pull { from: at, .. } => at,
        OtherEnd::PushToServer(_) | OtherEnd::PullFromServer(_) => return Ok((Vec::new(), None)),
    };
    let key = order.credentials.as_ref().and_then(|credentials| credentials.key.as_deref());
    identity_of(at, key, order.node.as_deref())
}

/// The keys and the fingerprint of a node, from the texts of an order.
///
/// # Errors
/// A text is not valid, the key is for another node, or neither is given.
pub(crate) fn identity_of(
    at: &HostPort,
    key: Option<&str>,
    node: Option<&str>,
) -> Result<(Vec<AccessKey>, Option<Fingerprint>), Refusal> {
    let key: Option<AccessKey> =
        key.map(str::parse).transpose().map_err(|e: auth::key::KeyError| wrong(e.to_string()))?;
    let named_node: Option<Fingerprint> =
        node.map(str::parse).transpose().map_err(|e: auth::key::KeyError| wrong(e.to_string()))?;
    match (key.as_ref().map(|key| key.node), named_node) {
        (Some(of_key), Some(named_node)) if of_key != named_node => {
            Err(wrong(format!("the access key is for another node than the one that node names ({named_node})")))
        }
        (None, None) => Err(wrong(format!(
            "say which node {at} is: give one of its access keys (credentials.key) or its fingerprint (node)"
        ))),
        (of_key, named_node) => Ok((key.into_iter().collect(), of_key.or(named_node))),
    }
}

fn options(ordered: &Options, into: bool) -> Result<spec::Options, Refusal> {
    let sync = match &ordered.sync {
        None => spec::Sync::default(),
        Some(word) => spec::Sync::ALL
            .into_iter()
            .find(|sync| sync.word() == word)
            .ok_or_else(|| wrong(format!("sync is none, exists, size, mtime or digest, and not {word:?}")))?,
    };
    let checksums = match &ordered.checksums {
        None => vec![Algorithm::Crc32c],
        Some(names) => names.iter().map(|name| name.parse().map_err(wrong)).collect::<Result<Vec<_>, _>>()?,
    };
    let is_long = |filter: &v1::node::Filter| filter.pattern.len() > TEXT_BYTES_MAX;
    if ordered.filters.len() > FILTERS_MAX || ordered.filters.iter().any(is_long) {
        return Err(wrong(format!(
            "an order has {FILTERS_MAX} filters at most, each of {TEXT_BYTES_MAX} bytes at most"
        )));
    }
    let filters: Vec<spec::Filter> = ordered
        .filters
        .iter()
        .map(|filter| spec::Filter { include: filter.include, pattern: filter.pattern.clone() })
        .collect();
    engine::filter::Filters::new(&filters)?;
    if ordered.delete && !ordered.recursive {
        return Err(wrong("delete goes with recursive: it removes what the source lacks, directory by directory"));
    }
    if !ordered.delete && (ordered.force || ordered.max_delete.is_some()) {
        return Err(wrong("max_delete and force go with delete"));
    }
    Ok(spec::Options {
        recursive: ordered.recursive,
        copy_links: ordered.copy_links,
        into,
        sync,
        no_overwrite: ordered.no_overwrite,
        durable: ordered.durable,
        checksums,
        delete: spec::Delete::from_options(ordered.delete, ordered.max_delete, ordered.force),
        dry_run: ordered.dry_run,
        owner: ordered.owner,
        xattrs: ordered.xattrs,
        wait_space: ordered.wait_space_s.map_or(WAIT_SPACE, Duration::from_secs).min(WAIT_MAX),
        filters,
    })
}

/// The limit, streams and pause of a transfer: those of its order, with later changes.
pub(crate) fn live_settings(order: &Order, changes: &Change) -> LiveSettings {
    let has_server = order
        .source
        .iter()
        .chain([&order.target])
        .chain(order.files.iter().take(1).flat_map(|file| [&file.source, &file.target]))
        .filter(|text| !text.is_empty())
        .any(|text| !text.starts_with('/') && !text.to_ascii_lowercase().starts_with("lh:"));
    let streams = match changes.streams.unwrap_or(order.streams) {
        0 if has_server => SERVER_STREAMS,
        streams => streams,
    };
    LiveSettings {
        limit_bit_s: changes.limit_bit_s.unwrap_or(order.limit_bit_s),
        streams: streams.min(wire::limits::STREAMS_MAX / 4),
        paused: changes.paused.unwrap_or(order.paused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::Uuid;
    use model::v1::node::Credentials;

    fn order(source: &str, target: &str) -> Order {
        let key = AccessKey::new([1; 8], [2; 32], Fingerprint([3; 32])).expose_text();
        let credentials = Some(Credentials { key: Some(key), ..Credentials::default() });
        Order { credentials, ..Order::new(Uuid::nil(), source, target) }
    }

    #[test]
    fn exactly_one_end_is_on_this_node() {
        let other_end = |source: &str, target: &str| read(&order(source, target)).map(|plan| plan.other_end).ok();
        let at = HostPort { host: "h".into(), port: 99 };
        let place = NodePlace::Path { export: "e".into(), path: model::RelPath::parse(b"x y").unwrap() };
        assert_eq!(
            other_end("/d/a", "lh://h:99/e/x%20y"),
            Some(OtherEnd::Push { to: at.clone(), place: place.clone() })
        );
        assert_eq!(other_end("lh://h:99/e/x%20y", "/d/"), Some(OtherEnd::Pull { from: at, places: vec![place] }));
        assert_eq!(other_end("/d/a", "https://s/x"), Some(OtherEnd::PushToServer("https://s/x".into())));
        assert_eq!(other_end("s3://b/k", "/d/a"), Some(OtherEnd::PullFromServer(vec!["s3://b/k".into()])));
        for (source, target) in [
            ("/d/a", "/d/b"),
            ("lh://h/e/x", "lh://h/e/y"),
            ("https://s/x", "https://s/y"),
            ("/", "lh://h/e/x"),
            ("/d/../x", "lh://h/e/x"),
            ("/d/a", "gsiftp://h/x"),
            ("/d/a", "me@h:/x"),
            ("local", "lh://h/e/x"),
            ("-", "lh://h/e/x"),
            ("", "lh://h/e/x"),
            ("/d/a", "https://me:5ecret@h/x"),
        ] {
            let refusal = read(&order(source, target)).unwrap_err();
            assert!(!refusal.reason.contains("5ecret"), "{refusal:?}");
        }
    }

    #[test]
    fn all_sources_lie_on_one_host() {
        let several = |sources: &[&str], target: &str| {
            let source = sources.iter().map(|text| (*text).to_owned()).collect();
            read(&Order { source, ..order("/d/a", target) })
        };
        let plan = several(&["/d/a", "/e/b"], "lh://h/x").unwrap();
        assert_eq!((plan.here.len(), plan.options.into), (2, true));
        assert!(several(&["lh://h/x", "lh://i/x"], "/d").is_err());
        assert!(several(&["/d/a", "lh://i/x"], "/d").is_err());
        assert!(several(&[], "/d").unwrap_err().reason.contains("at least one source"));
    }

    #[test]
    fn an_order_identifies_the_other_node() {
        let anonymous = Order { credentials: None, ..order("/d/a", "lh://h/e/x") };
        assert!(read(&anonymous).unwrap_err().reason.contains("say which node h:7411 is"));
        let named_node = Order { node: Some(Fingerprint([5; 32]).to_string()), ..anonymous };
        assert_eq!(read(&named_node).unwrap().node, Some(Fingerprint([5; 32])));
        let other = Order { credentials: order("", "").credentials, ..named_node };
        assert!(read(&other).unwrap_err().reason.contains("another node"));
    }

    #[test]
    fn an_invalid_option_is_refused() {
        let with = |options: Options| read(&Order { options, ..order("/d/a", "lh://h/e/x") });
        let sync = Options { sync: Some("often".into()), ..Options::default() };
        assert!(with(sync).unwrap_err().reason.contains("often"));
        assert!(with(Options { checksums: Some(vec!["crc7".into()]), ..Options::default() }).is_err());
        assert!(with(Options { checksums: Some(vec![]), ..Options::default() }).is_err());
        assert!(with(Options { delete: true, ..Options::default() }).is_err());
        assert!(read(&Order { congestion: Some("../x".into()), ..order("/d/a", "lh://h/e/x") }).is_err());
    }

    #[test]
    fn the_kept_order_has_no_secrets() {
        let first = order("/d/a?b", "https://s/x?X-Amz-Signature=1");
        let again = Order { credentials: None, target: "https://s/x?X-Amz-Signature=2".into(), ..first.clone() };
        assert_ne!(first, again);
        assert_eq!(bare(&first), bare(&again));
        assert_eq!(bare(&first).target, "https://s/x?…");
        assert_eq!(bare(&first).source, ["/d/a?b"]);
    }

    #[test]
    fn later_changes_apply() {
        let order = Order { limit_bit_s: 5, ..order("/d/a", "https://s/x") };
        let first = Change { paused: Some(true), ..Change::default() };
        let both = first.then(&Change { limit_bit_s: Some(7), ..Change::default() });
        assert_eq!(
            live_settings(&order, &both),
            LiveSettings { limit_bit_s: 7, streams: SERVER_STREAMS, paused: true }
        );
    }
}
