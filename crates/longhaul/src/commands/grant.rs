//! `longhaul grant`: makes, lists and revokes keys in the state directory. The node need not run.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use auth::{AccessKey, Grant, Rights};
use jiff::Timestamp;
use model::{DEFAULT_PORT, Exit, RelPath};
use serde::Serialize;

use crate::args::{Grant as GrantArgs, GrantAction, NewGrant};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::random::random;
use crate::settings::Settings;

/// One line of `grant list --json`.
#[derive(Serialize)]
struct GrantLine<'a> {
    v: u32,
    event: &'static str,
    id: &'a str,
    name: &'a str,
    export: &'a str,
    path: &'a str,
    rights: &'a str,
    created: String,
    expires: Option<String>,
    expired: bool,
    /// The link with the key in it; only when the key is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}

fn date(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |t| t.to_string())
}

/// Runs the command.
///
/// # Errors
/// An option is wrong, the grant does not exist, or the state directory cannot be used.
pub fn run(args: GrantArgs, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match args.action {
        None => make(&args.new, settings, printer),
        Some(GrantAction::List) => list(settings, printer),
        Some(GrantAction::Revoke { id }) => {
            let removed = settings.state()?.change_grants(|grants| {
                let before = grants.list.len();
                grants.list.retain(|g| g.id != id);
                before - grants.list.len()
            })?;
            if removed == 0 {
                let message = format!("there is no grant {id}; `longhaul grant list` shows all");
                return Err(Failure { exit: Exit::Failed, fault: model::Fault::Missing, message });
            }
            Ok(Exit::Done)
        }
    }
}

fn make(new: &NewGrant, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let export = new.export.clone().ok_or_else(|| Failure::usage("say which export: --export NAME"))?;
    if export.is_empty() || export.contains(['/', ':']) {
        return Err(Failure::usage(format!("{export:?} cannot be an export's name: no slash, no colon")));
    }
    let prefix = RelPath::parse(new.path.as_bytes()).map_err(|e| Failure::usage(format!("--path: {e}")))?;
    if std::str::from_utf8(prefix.as_bytes()).is_err() {
        return Err(Failure::usage("--path must be text (UTF-8)"));
    }
    let rights = match (new.write, new.create) {
        (true, _) => Rights::Write,
        (_, true) => Rights::Create,
        _ => Rights::Read,
    };
    let state = settings.state()?;
    if let Some(served) = state.last_exports().filter(|served| !served.contains(&export)) {
        let served = if served.is_empty() { "none".to_owned() } else { served.join(", ") };
        Printer::note(&format!(
            "the node with this state served no export {export} when it last started (it served: {served}): the key opens nothing \
             until the node serves an export of that name"
        ));
    }
    let id = random()?;
    let secret = random()?;
    let mut grant = Grant::new(id, &secret, export, &prefix, rights, now());
    grant.name.clone_from(&new.name);
    grant.expires = new.valid_for.map(|span| grant.created.saturating_add(span.as_secs() as i64));
    let key = AccessKey::new(id, secret, state.fingerprint()?);
    let at = host_and_port(new.at.as_deref(), state.last_address())?;
    state.change_grants(|grants| grants.list.push(grant.clone()))?;
    let url = link(&at, &grant, &key);
    if printer.is_json() {
        printer.object(&GrantLine { url: Some(url), ..line(&grant) });
    } else if printer.is_chatty() {
        // On stderr, so that standard output has the key alone.
        Printer::note(&describe(&grant));
        // A browser only reads, and this key only creates.
        let clients = if rights == Rights::Create { "curl -T" } else { "browsers and curl" };
        Printer::note(&format!("URL for {clients}, to be kept as secret as the key: {url}"));
        Printer::note("the key, to be kept secret (in LONGHAUL_KEY, or in a file for --key-file):");
    }
    printer.line(&key.expose_text());
    Ok(Exit::Done)
}

/// The URL of the place that a key opens, with the key in it.
fn link(host_and_port: &str, grant: &Grant, key: &AccessKey) -> String {
    let place = [grant.export.as_str(), grant.prefix.as_str()].join("/");
    let place = web::target::encode(place.trim_end_matches('/').as_bytes());
    format!("https://{host_and_port}/{place}?authz={}", key.expose_text())
}

/// Host and port for clients of the node: those of `--at`, else the node's address if it listens on a single one, else the name of
/// this host.
pub(super) fn host_and_port(at: Option<&str>, last_address: Option<SocketAddr>) -> Result<String, Failure> {
    let port = last_address.map_or(DEFAULT_PORT, |address| address.port());
    let Some(text) = at else {
        let only = last_address.map(|address| address.ip()).filter(|ip| !ip.is_unspecified());
        return Ok(match only {
            Some(ip) => SocketAddr::new(ip, port).to_string(),
            None => format!("{}:{port}", rustix::system::uname().nodename().to_string_lossy()),
        });
    };
    let is_bare_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
    let (host, typed_port) = match text.rsplit_once(':') {
        _ if is_bare_v6 => (format!("[{text}]"), None),
        Some((host, port)) if !text.ends_with(']') => (host.to_owned(), Some(port)),
        _ => (text.to_owned(), None),
    };
    let is_name = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
    let port = typed_port.map_or(Ok(port), str::parse::<u16>).ok().filter(|port| *port > 0 && is_name);
    let wrong = || Failure::usage(format!("--at {text}: write HOST, HOST:PORT or [v6]:PORT"));
    Ok(format!("{host}:{}", port.ok_or_else(wrong)?))
}

fn describe(grant: &Grant) -> String {
    let place =
        if grant.prefix.is_empty() { grant.export.clone() } else { format!("{}/{}", grant.export, grant.prefix) };
    let until = grant.expires.map_or_else(|| "for ever".to_owned(), |at| format!("until {}", date(at)));
    let name = if grant.name.is_empty() { String::new() } else { format!("  {}", grant.name) };
    let expired = if grant.expires.is_some_and(|at| at <= now()) { "  EXPIRED" } else { "" };
    format!("{}  {}  {place}  {until}{name}{expired}", grant.id, grant.rights.word())
}

fn line(grant: &Grant) -> GrantLine<'_> {
    GrantLine {
        v: 1,
        event: "grant",
        id: &grant.id,
        name: &grant.name,
        export: &grant.export,
        path: &grant.prefix,
        rights: grant.rights.word(),
        created: date(grant.created),
        expires: grant.expires.map(date),
        expired: grant.expires.is_some_and(|at| at <= now()),
        url: None,
    }
}

fn list(settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    for grant in &settings.state()?.grants()?.list {
        if printer.is_json() {
            printer.object(&line(grant));
        } else {
            printer.line(&describe(grant));
        }
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_the_address_of_the_node_and_the_path_of_the_grant() {
        let last = Some("127.0.0.1:9000".parse().unwrap());
        let address = |text, last| host_and_port(Some(text), last).ok();
        assert_eq!(address("dtn.example.org", last).as_deref(), Some("dtn.example.org:9000"));
        assert_eq!(address("dtn.example.org:443", last).as_deref(), Some("dtn.example.org:443"));
        assert_eq!(address("2001:db8::1", None).as_deref(), Some("[2001:db8::1]:7411"));
        assert_eq!(address("[2001:db8::1]:1", None).as_deref(), Some("[2001:db8::1]:1"));
        for bad in ["", ":1", "h:x", "h:0", "h/x", "h:70000", "u@h"] {
            assert_eq!(address(bad, None), None, "{bad}");
        }
        assert_eq!(host_and_port(None, last).unwrap(), "127.0.0.1:9000");
        let everywhere = host_and_port(None, Some("[::]:9000".parse().unwrap())).unwrap();
        assert!(everywhere.ends_with(":9000") && !everywhere.contains("::"), "{everywhere}");
        let path = RelPath::parse("a b/?".as_bytes()).unwrap();
        let grant = Grant::new([1; 8], &[2; 32], "data".into(), &path, Rights::Read, 0);
        let key = AccessKey::new([1; 8], [2; 32], auth::Fingerprint([3; 32]));
        assert_eq!(link("h:1", &grant, &key), format!("https://h:1/data/a%20b/%3F?authz={}", key.expose_text()));
    }
}
