//! Checks an order against the tool that it names. What is left can be run: every field has the form that the arguments need, and the
//! tool has every option that is asked for.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use auth::Fingerprint;
use model::Fault;
use model::id::Uuid;
use web::Refused;
use web::scitag::SciTag;

use super::addresses::{LocalEnd, local_end, may_carry_credential, remote_url, server};
use super::arguments::ClientOptions;
use super::installed::{InstalledTool, InstalledTools};
use super::limits::{
    BEARER_CHARS_MAX, CLIENT_LIMIT_BIT_S_MIN, FILES_MAX, LIFETIME_S_MAX, STREAMS_MAX, TEST_S_MAX, WINDOW_BYTES_MAX,
};
use super::process::OutputForm;
use super::tools::{BearerChannel, DiscardForm, RemoteForm};
use super::words::{ToolRunDirection, ToolRunOrder};

/// A file that can be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckedFile {
    /// The URL or server, as an argument.
    pub remote: String,
    /// The local end.
    pub local: LocalEnd,
    /// The size of the file, bytes.
    pub bytes: u64,
}

/// An order that can be run.
pub(super) struct CheckedOrder {
    /// The id of the run.
    pub id: Uuid,
    /// A hash of the whole order: an order with the same id and hash is the same order.
    pub hash: u64,
    /// The tool.
    pub tool: Arc<InstalledTool>,
    /// The direction of the data.
    pub direction: ToolRunDirection,
    /// The files of each process.
    pub batches: VecDeque<Vec<CheckedFile>>,
    /// The options of each process.
    pub options: ClientOptions,
    /// The most processes at once; not more than there are files.
    pub clients: u32,
    /// The time until the run is stopped unless it is renewed.
    pub lifetime: Duration,
}

/// An order that is wrong in itself.
fn wrong(reason: impl Into<String>) -> Refused {
    Refused::new(400, reason)
}

/// Checks a lifetime.
///
/// # Errors
/// It is not 1 to 60 s.
pub(super) fn lifetime(seconds: u32) -> Result<Duration, Refused> {
    if (1..=LIFETIME_S_MAX).contains(&seconds) {
        return Ok(Duration::from_secs(u64::from(seconds)));
    }
    Err(wrong(format!("lifetime_s is {seconds}; write 1 to {LIFETIME_S_MAX}, and renew the run before it ends")))
}

impl CheckedOrder {
    /// Checks an order.
    ///
    /// # Errors
    /// A field is wrong, the agent does not run the tool, or the tool does not have an option that is asked for.
    pub fn check(order: &ToolRunOrder, tools: &InstalledTools) -> Result<CheckedOrder, Refused> {
        let tool = tools.get(&order.tool).ok_or_else(|| {
            wrong(format!("this agent does not run {:?}; it runs {} (`--tool`)", order.tool, tools.names()))
        })?;
        if let Err(why) = &tool.program {
            let reason = format!("{} cannot be run on the agent's host: {why}", order.tool);
            return Err(Refused { fault: Some(Fault::Local), ..Refused::new(503, reason) });
        }
        CheckedOrder::for_tool(order, tool)
    }

    fn for_tool(order: &ToolRunOrder, tool: &Arc<InstalledTool>) -> Result<CheckedOrder, Refused> {
        if order.files.is_empty() || order.files.len() > FILES_MAX {
            return Err(wrong(format!("the order has {} files; it may have 1 to {FILES_MAX}", order.files.len())));
        }
        if order.clients == 0 {
            return Err(wrong("clients is 0; write how many processes may run at once"));
        }
        let clients = order.clients.min(order.files.len().div_ceil(order.files_each.max(1) as usize) as u32);
        let lifetime = lifetime(order.lifetime_s)?;
        let options = options(order, tool, clients)?;
        let batches = batches(order, files(order, tool)?, tool)?;
        let mut hasher = DefaultHasher::new();
        order.hash(&mut hasher);
        let hash = hasher.finish();
        Ok(CheckedOrder {
            id: order.id,
            hash,
            tool: Arc::clone(tool),
            direction: order.direction,
            batches,
            options,
            clients,
            lifetime,
        })
    }
}

/// The options of each process.
fn options(order: &ToolRunOrder, tool: &InstalledTool, clients: u32) -> Result<ClientOptions, Refused> {
    let template = tool.template;
    let name = template.name;
    if let Some(streams) = order.streams {
        if !(1..=STREAMS_MAX).contains(&streams) {
            return Err(wrong(format!("streams is {streams}; write 1 to {STREAMS_MAX}")));
        }
        if streams > template.streams_max {
            return Err(wrong(format!(
                "{name} has at most {} streams in a process, and not {streams}",
                template.streams_max
            )));
        }
    }
    if let Some(bytes) = order.window_bytes {
        if !template.can_set_window {
            return Err(wrong(format!("{name} has no option for the buffers of its sockets (window_bytes)")));
        }
        if !(1..=WINDOW_BYTES_MAX).contains(&bytes) {
            return Err(wrong(format!("window_bytes is {bytes}; write 1 to {WINDOW_BYTES_MAX}")));
        }
    }
    let is_test = template.output == OutputForm::Iperf3;
    if let Some(seconds) = order.seconds
        && !(is_test && (1..=TEST_S_MAX).contains(&seconds))
    {
        return Err(wrong(format!("seconds is {seconds}; it is for iperf3 only, 1 to {TEST_S_MAX}")));
    }
    let limit_bit_s = order.limit_bit_s.map(|limit| limit_of_process(limit, tool, clients)).transpose()?;
    // One stream is what a tool does without the option, which some versions do not have.
    let streams = order.streams.filter(|streams| *streams > 1);
    let fingerprint =
        order.credentials.fingerprint.as_ref().map(|text| {
            text.parse::<Fingerprint>().map_err(|error| wrong(format!("credentials.fingerprint: {error}")))
        });
    // Other tools verify the server's certificate by authorities, so that nothing is left unverified.
    let fingerprint = fingerprint.transpose()?.filter(|_| template.can_pin);
    Ok(ClientOptions {
        bearer: bearer_of(order, tool)?,
        fingerprint,
        streams,
        window_bytes: order.window_bytes,
        limit_bit_s,
        seconds: order.seconds,
        scitag: order.scitag.filter(|tag| *tag >= SciTag::MIN),
    })
}

/// The part of a limit that each process may use: a process cannot be told later that others have ended.
fn limit_of_process(limit_bit_s: u64, tool: &InstalledTool, clients: u32) -> Result<u64, Refused> {
    let name = tool.template.name;
    if !tool.can_limit {
        return Err(wrong(format!(
            "{name} cannot limit its rate, so it is not run under a limit; leave out limit_bit_s, or take another tool"
        )));
    }
    let each = limit_bit_s / u64::from(clients);
    if each >= CLIENT_LIMIT_BIT_S_MIN {
        return Ok(each);
    }
    Err(wrong(format!(
        "limit_bit_s leaves {each} bit/s to each of {clients} clients; less than {CLIENT_LIMIT_BIT_S_MIN} cannot be held: use fewer clients"
    )))
}

/// The bearer of an order. It is written into a configuration file or into a variable.
fn bearer_of(order: &ToolRunOrder, tool: &InstalledTool) -> Result<Option<String>, Refused> {
    let Some(bearer) = &order.credentials.bearer else { return Ok(None) };
    match (tool.template.remote, tool.template.bearer) {
        // A test needs no credential.
        (RemoteForm::Server, _) => return Ok(None),
        (_, BearerChannel::None) => {
            return Err(wrong(format!("{} takes no bearer; leave out credentials.bearer", tool.template.name)));
        }
        _ => {}
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    // RFC 6750, section 2.1.
    if bearer.is_empty() || bearer.len() > BEARER_CHARS_MAX || !bearer.chars().all(is_plain) {
        let reason =
            format!("credentials.bearer is not a token of 1 to {BEARER_CHARS_MAX} letters, digits and -._~+/=");
        return Err(wrong(reason));
    }
    Ok(Some(bearer.to_owned()))
}

/// The files of each process.
fn batches(
    order: &ToolRunOrder,
    files: Vec<CheckedFile>,
    tool: &InstalledTool,
) -> Result<VecDeque<Vec<CheckedFile>>, Refused> {
    let name = tool.template.name;
    if order.files_each == 0 {
        return Err(wrong("files_each is 0; write how many files each process copies"));
    }
    if order.files_each > 1 && !(tool.template.copies_several && order.direction == ToolRunDirection::Get) {
        return Err(wrong(format!("{name} copies one file in a process; leave out files_each")));
    }
    let batches: VecDeque<Vec<CheckedFile>> =
        files.chunks(order.files_each as usize).map(<[CheckedFile]>::to_vec).collect();
    if let Some(batch) = batches.iter().find(|batch| batch.len() > 1 && !is_of_one_directory(batch)) {
        let first = batch.first().map_or("", |file| &file.remote);
        return Err(wrong(format!(
            "{first} and the next files cannot be copied by one process: their targets must be in one directory, with the names of their sources"
        )));
    }
    Ok(batches)
}

/// Whether all files have targets in one directory, with the names of their sources.
fn is_of_one_directory(batch: &[CheckedFile]) -> bool {
    let directory = |file: &CheckedFile| match &file.local {
        LocalEnd::File(path) if path.file_name()?.to_str()? == file.remote.rsplit('/').next()? => {
            Some(path.parent()?.to_owned())
        }
        _ => None,
    };
    let first = batch.first().and_then(directory);
    first.is_some() && batch.iter().all(|file| directory(file) == first)
}

fn files(order: &ToolRunOrder, tool: &InstalledTool) -> Result<Vec<CheckedFile>, Refused> {
    let mut files = Vec::with_capacity(order.files.len());
    let mut targets = HashSet::new();
    for (at, file) in order.files.iter().enumerate() {
        let in_file = |why: String| wrong(format!("files[{at}]: {why}"));
        let (remote, local) = match (tool.template.remote, order.direction) {
            (RemoteForm::Server, _) | (_, ToolRunDirection::Get) => (&file.source, &file.target),
            (_, ToolRunDirection::Put) => (&file.target, &file.source),
        };
        let local = local_end(local).map_err(in_file)?;
        let remote = match tool.template.remote {
            RemoteForm::Url(schemes) => check_url(remote, schemes, order, tool).map_err(in_file)?,
            RemoteForm::Server => server(remote).map_err(in_file)?.to_string(),
        };
        check_local(&local, order, tool).map_err(in_file)?;
        if tool.template.output == OutputForm::Iperf3 && file.bytes == 0 && order.seconds.is_none() {
            return Err(in_file("a test needs `bytes`, or the order needs `seconds`".to_owned()));
        }
        if let (LocalEnd::File(path), ToolRunDirection::Get) = (&local, order.direction)
            && !targets.insert(path.clone())
        {
            return Err(in_file(format!("{} is the target of two files", path.display())));
        }
        files.push(CheckedFile { remote, local, bytes: file.bytes });
    }
    Ok(files)
}

fn check_url(text: &str, schemes: &[&str], order: &ToolRunOrder, tool: &InstalledTool) -> Result<String, String> {
    let url = remote_url(text, schemes)?;
    if order.credentials.bearer.is_some() && !may_carry_credential(&url) {
        return Err(format!(
            "{text:?}: a bearer is not sent in clear text; use https, or leave out credentials.bearer"
        ));
    }
    let has_tuning = order.streams.is_some_and(|streams| streams > 1) || order.window_bytes.is_some();
    if has_tuning && !tool.template.tunes(url.scheme()) {
        let tuned = tool.template.tuned_schemes.join(" and ");
        return Err(format!("{text:?}: {} uses streams and window_bytes for {tuned} only", tool.template.name));
    }
    Ok(text.to_owned())
}

/// Checks that the tool can do this with its local end.
fn check_local(local: &LocalEnd, order: &ToolRunOrder, tool: &InstalledTool) -> Result<(), String> {
    let name = tool.template.name;
    match (local, tool.template.remote, order.direction) {
        (LocalEnd::Null, RemoteForm::Server, _) => Ok(()),
        (LocalEnd::File(_), RemoteForm::Server, _) => {
            Err(format!("{name} has no local file: write `null:` as the target"))
        }
        (LocalEnd::Null, _, ToolRunDirection::Put) => {
            Err("a put needs a file below the agent's directory as its source".to_owned())
        }
        (LocalEnd::Null, ..) if tool.template.discard == DiscardForm::Never => {
            Err(format!("{name} cannot discard what arrives: write a path below the agent's directory as the target"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::words::{ToolRunCredentials, ToolRunFile};

    fn order(tool: &str, source: &str, target: &str) -> ToolRunOrder {
        let direction = if target.contains("://") { ToolRunDirection::Put } else { ToolRunDirection::Get };
        ToolRunOrder {
            id: Uuid::from_u128(1),
            tool: tool.to_owned(),
            direction,
            files: vec![ToolRunFile { source: source.into(), target: target.into(), bytes: 100 }],
            files_each: 1,
            credentials: ToolRunCredentials::default(),
            streams: None,
            window_bytes: None,
            limit_bit_s: None,
            clients: 4,
            seconds: None,
            scitag: None,
            lifetime_s: 30,
        }
    }

    fn check(order: &ToolRunOrder) -> Result<CheckedOrder, String> {
        let can_limit = !matches!(order.tool.as_str(), "gfal-copy" | "globus-url-copy");
        let checked = CheckedOrder::for_tool(order, &InstalledTool::pretended(&order.tool, can_limit));
        checked.map_err(|refused| refused.reason)
    }

    #[track_caller]
    fn refused(order: &ToolRunOrder, why: &str) {
        let reason = check(order).err().expect("the order is refused");
        assert!(reason.contains(why), "{reason}");
    }

    #[test]
    fn an_order_becomes_files_and_options() {
        let checked = check(&order("curl", "https://h/f", "a/f")).unwrap();
        let file = CheckedFile { remote: "https://h/f".into(), local: LocalEnd::File("a/f".into()), bytes: 100 };
        assert_eq!(checked.batches, [vec![file]]);
        assert_eq!((checked.clients, checked.lifetime), (1, Duration::from_secs(30)), "one file needs one client");
        let put = check(&order("xrdcp", "a/f", "root://h//f")).unwrap();
        assert_eq!((put.batches[0][0].remote.as_str(), put.direction), ("root://h//f", ToolRunDirection::Put));
        let test = check(&order("iperf3", "[::1]:5201", "null:")).unwrap();
        assert_eq!((test.batches[0][0].remote.as_str(), &test.batches[0][0].local), ("[::1]:5201", &LocalEnd::Null));
    }

    #[test]
    fn the_same_order_has_the_same_hash() {
        let first = order("curl", "https://h/f", "a");
        let other = ToolRunOrder { clients: 5, ..first.clone() };
        let hash = |order: &ToolRunOrder| check(order).unwrap().hash;
        assert_eq!(hash(&first), hash(&first.clone()));
        assert_ne!(hash(&first), hash(&other));
    }

    #[test]
    fn each_tool_has_schemes_and_ends_of_its_own() {
        for (tool, source, target, why) in [
            ("curl", "root://h//f", "a", "write https://HOST/PATH or http://HOST/PATH"),
            ("curl", "file:///etc/passwd", "a", "write https"),
            ("xrdcp", "http://h/f", "a", "write root://"),
            ("globus-url-copy", "https://h/f", "a", "write gsiftp://"),
            ("rsync", "h:/etc/passwd", "a", "write rsync://"),
            ("rsync", "rsync://h/m/f", "null:", "cannot discard"),
            ("gfal-copy", "https://h/f", "null:", "cannot discard"),
            ("longhaul", "https://h/f", "a", "write lh://"),
            ("curl", "https://h/f", "../a", "`..`"),
            ("curl", "https://h/f", "/etc/cron.d/x", "relative"),
            ("curl", "https://h/f", "-o", "like an option"),
            ("curl", "/etc/passwd", "https://h/f", "relative"),
            ("curl", "null:", "https://h/f", "a put needs a file"),
            ("iperf3", "-c", "null:", "like an option"),
            ("iperf3", "h", "null:", "the port is missing"),
            ("iperf3", "h:1", "a", "has no local file"),
        ] {
            refused(&order(tool, source, target), why);
        }
    }

    #[test]
    fn several_files_of_a_process_go_into_one_directory() {
        let file = |name: &str, target: &str| ToolRunFile {
            source: format!("root://h//d/{name}"),
            target: target.into(),
            bytes: 1,
        };
        let files = vec![file("a", "x/a"), file("b", "x/b"), file("c", "x/c")];
        let batched = ToolRunOrder { files, files_each: 2, ..order("xrdcp", "root://h//f", "f") };
        let checked = check(&batched).unwrap();
        assert_eq!((checked.batches.iter().map(Vec::len).collect::<Vec<_>>(), checked.clients), (vec![2, 1], 2));
        let elsewhere = ToolRunOrder { files: vec![file("a", "x/a"), file("b", "y/b")], ..batched.clone() };
        refused(&elsewhere, "must be in one directory");
        refused(
            &ToolRunOrder { files: vec![file("a", "x/a"), file("b", "x/other")], ..batched.clone() },
            "names of their sources",
        );
        refused(&ToolRunOrder { files_each: 2, ..order("longhaul", "lh://h/e/f", "f") }, "one file in a process");
        refused(&ToolRunOrder { files_each: 0, ..batched }, "files_each is 0");
    }

    #[test]
    fn an_option_that_a_tool_does_not_have_is_refused() {
        let curl = order("curl", "https://h/f", "null:");
        refused(&ToolRunOrder { streams: Some(2), ..curl.clone() }, "at most 1 streams");
        assert_eq!(check(&ToolRunOrder { streams: Some(1), ..curl.clone() }).unwrap().options.streams, None);
        refused(&ToolRunOrder { window_bytes: Some(1), ..curl.clone() }, "no option for the buffers");
        refused(&ToolRunOrder { seconds: Some(5), ..curl.clone() }, "iperf3 only");
        let gfal = order("gfal-copy", "gsiftp://h/f", "f");
        refused(&ToolRunOrder { limit_bit_s: Some(1 << 30), ..gfal.clone() }, "cannot limit its rate");
        let tuned = ToolRunOrder { streams: Some(8), window_bytes: Some(1 << 20), ..gfal };
        assert_eq!(check(&tuned).unwrap().options.streams, Some(8));
        let by_http = ToolRunOrder { files: order("gfal-copy", "https://h/f", "f").files, ..tuned };
        refused(&by_http, "for gsiftp only");
        let xrdcp = order("xrdcp", "root://h//f", "null:");
        refused(&ToolRunOrder { streams: Some(16), ..xrdcp.clone() }, "at most 15 streams");
        refused(&ToolRunOrder { streams: Some(0), ..xrdcp }, "write 1 to 128");
        let test = order("iperf3", "h:5201", "null:");
        refused(&ToolRunOrder { seconds: Some(0), ..test.clone() }, "seconds is 0");
        let files = vec![ToolRunFile { bytes: 0, ..test.files[0].clone() }];
        refused(&ToolRunOrder { files: files.clone(), ..test.clone() }, "needs `bytes`");
        assert!(check(&ToolRunOrder { files, seconds: Some(5), ..test }).is_ok());
    }

    #[test]
    fn a_limit_is_shared_by_the_clients() {
        let mut shared = order("curl", "https://h/0", "null:");
        shared.files =
            (0..10).map(|n| ToolRunFile { source: format!("https://h/{n}"), ..shared.files[0].clone() }).collect();
        shared.limit_bit_s = Some(100_000_000);
        assert_eq!(check(&shared).unwrap().options.limit_bit_s, Some(25_000_000));
        shared.clients = 200;
        assert_eq!(check(&shared).unwrap().options.limit_bit_s, Some(10_000_000), "ten files need ten clients");
        shared.limit_bit_s = Some(9_000_000);
        refused(&shared, "leaves 900000 bit/s to each of 10 clients");
    }

    #[test]
    fn credentials_are_plain_and_go_over_tls_only() {
        let with = |tool: &str, source: &str, bearer: &str| ToolRunOrder {
            credentials: ToolRunCredentials { bearer: Some(bearer.into()), fingerprint: None },
            ..order(tool, source, "null:")
        };
        assert!(check(&with("curl", "https://h/f", "eyJ.a-b_c~+/==")).is_ok());
        assert!(check(&with("curl", "http://127.0.0.1:80/f", "t")).is_ok());
        refused(&with("curl", "http://h/f", "t"), "clear text");
        refused(&with("globus-url-copy", "gsiftp://h/f", "t"), "takes no bearer");
        for bad in ["", "a b", "a\"\nurl = \"x", "a\r\nHost: x"] {
            refused(&with("curl", "https://h/f", bad), "is not a token");
        }
        let mut pinned = order("curl", "https://h/f", "null:");
        pinned.credentials.fingerprint = Some(Fingerprint([7; 32]).to_string());
        assert_eq!(check(&pinned).unwrap().options.fingerprint, Some(Fingerprint([7; 32])));
        pinned.credentials.fingerprint = Some("SHA256:x".into());
        refused(&pinned, "credentials.fingerprint");
        let mut unpinned = order("xrdcp", "roots://h//f", "null:");
        unpinned.credentials.fingerprint = Some(Fingerprint([7; 32]).to_string());
        assert_eq!(check(&unpinned).unwrap().options.fingerprint, None, "xrdcp verifies by authorities");
        let test = check(&with("iperf3", "h:5201", "t")).unwrap();
        assert_eq!(test.options.bearer, None, "a test shows no credential");
    }

    #[test]
    fn counts_and_times_have_bounds() {
        let curl = order("curl", "https://h/f", "a");
        refused(&ToolRunOrder { clients: 0, ..curl.clone() }, "clients is 0");
        for seconds in [0, 61] {
            refused(&ToolRunOrder { lifetime_s: seconds, ..curl.clone() }, "write 1 to 60");
        }
        refused(&ToolRunOrder { files: Vec::new(), ..curl.clone() }, "has 0 files");
        refused(&ToolRunOrder { files: vec![curl.files[0].clone(); FILES_MAX + 1], ..curl.clone() }, "10001 files");
        refused(&ToolRunOrder { files: vec![curl.files[0].clone(); 2], ..curl }, "target of two files");
    }
}
