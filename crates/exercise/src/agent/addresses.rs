//! The addresses in orders: URLs and servers, and paths below the agent's directory. They become arguments of programs, so only
//! characters are allowed that no tool reads as anything but itself: no spaces, quotes, wildcards or escapes of a shell.

use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use model::HostPort;
use url::{Host, Url};

use super::limits::ADDRESS_CHARS_MAX;

/// Characters of paths of URLs besides letters and digits. `[`, `{` and `*` are wildcards of curl and xrdcp; a query (`?`) may hold a
/// credential, which other users of the host would see in the list of processes.
const URL_CHARS: &str = "-._~/%:+,=@[]";
/// Characters of local paths besides letters and digits: a file URL needs no escapes for them, and rsync no quotes.
const PATH_CHARS: &str = "-._~/+,=@";

/// What the local end of a copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LocalEnd {
    /// What arrives is discarded.
    Null,
    /// A path below the agent's directory.
    File(PathBuf),
}

/// Reads the local end of a copy.
///
/// # Errors
/// The path could lead out of the directory, or has characters that a tool could take for something else.
pub(super) fn local_end(text: &str) -> Result<LocalEnd, String> {
    if text == "null:" {
        return Ok(LocalEnd::Null);
    }
    let refuse = |why: &str| Err(format!("{text:?} is not a path below the agent's directory: {why}"));
    if text.is_empty() || text.len() > ADDRESS_CHARS_MAX {
        return refuse(&format!("write 1 to {ADDRESS_CHARS_MAX} characters"));
    }
    if let Some(bad) = text.chars().find(|c| !c.is_ascii_alphanumeric() && !PATH_CHARS.contains(*c)) {
        return refuse(&format!("{bad:?} is not allowed; use letters, digits and {PATH_CHARS}"));
    }
    if text.starts_with('/') || text.ends_with('/') {
        return refuse("write it relative to the directory, without a slash at its start or end");
    }
    for part in text.split('/') {
        match part {
            "" | "." | ".." => return refuse("it has an empty part, `.` or `..`"),
            // The agent's own names begin so.
            part if part.starts_with('.') => return refuse("a part begins with `.`"),
            part if part.starts_with('-') => return refuse("a part begins with `-`, like an option"),
            part if part.len() > 255 => return refuse("a part has more than 255 characters"),
            _ => {}
        }
    }
    Ok(LocalEnd::File(PathBuf::from(text)))
}

/// Checks a URL. Returns it as it is written: some tools need both slashes of `root://host//path`.
///
/// # Errors
/// It is not a URL of one of these schemes, has a credential or a query, or a character that a tool could take for something else.
pub(super) fn remote_url(text: &str, schemes: &[&str]) -> Result<Url, String> {
    let refuse = |why: &str| format!("{text:?} cannot be used: {why}");
    if text.len() > ADDRESS_CHARS_MAX {
        return Err(format!("a URL of {} characters is longer than the {ADDRESS_CHARS_MAX} that are read", text.len()));
    }
    let wanted = || {
        let forms: Vec<String> = schemes.iter().map(|scheme| format!("{scheme}://HOST/PATH")).collect();
        refuse(&format!("write {}", forms.join(" or ")))
    };
    let (scheme, rest) = text.split_once("://").ok_or_else(wanted)?;
    if !schemes.contains(&scheme) || rest.starts_with('/') {
        return Err(wanted());
    }
    if rest.contains(['?', '#']) {
        return Err(refuse(
            "it has a query or a fragment, which other users of the host would see; send a credential in `credentials`",
        ));
    }
    if let Some(bad) = rest.chars().find(|c| !c.is_ascii_alphanumeric() && !URL_CHARS.contains(*c)) {
        return Err(refuse(&format!("{bad:?} is not allowed; write it as %XX")));
    }
    // curl takes brackets after the host for a range of names.
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if path.contains(['[', ']']) {
        return Err(refuse("brackets belong around an IPv6 address only; write them as %5B and %5D"));
    }
    if authority.contains('@') {
        return Err(refuse("it has a user or password before its host; send a credential in `credentials`"));
    }
    if authority.is_empty() || authority.starts_with(['-', ':']) {
        return Err(refuse("it names no host"));
    }
    let url = Url::parse(text).map_err(|error| refuse(&error.to_string()))?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refuse("it names no host"));
    }
    Ok(url)
}

/// Whether a credential may be sent to this URL: it is encrypted, or does not leave the host. Other schemes than `http` decide about
/// encryption by themselves.
pub(super) fn may_carry_credential(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() != "http" || is_loopback
}

/// Reads a server: `HOST:PORT`.
///
/// # Errors
/// It is not a host with a port, or could be taken for an option.
pub(super) fn server(text: &str) -> Result<HostPort, String> {
    let refuse = |why: &str| format!("{text:?} is not HOST:PORT: {why}");
    if text.len() > ADDRESS_CHARS_MAX || text.starts_with('-') {
        return Err(refuse("it is too long, or begins with `-`, like an option"));
    }
    if let Some(bad) = text.chars().find(|c| !c.is_ascii_alphanumeric() && !"-._:[]".contains(*c)) {
        return Err(refuse(&format!("{bad:?} is not allowed")));
    }
    let has_port =
        text.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    if !has_port {
        return Err(refuse("the port is missing"));
    }
    let server: HostPort = text.parse().map_err(refuse)?;
    if server.host.is_empty() || server.host.starts_with('-') {
        return Err(refuse("the host is missing"));
    }
    Ok(server)
}

/// Checks the agent's directory: it is put into URLs and lists of arguments without escapes.
///
/// # Errors
/// It is not absolute, or has other characters than local paths may have.
pub(super) fn check_directory(directory: &Path) -> Result<(), String> {
    let text = directory.to_str().unwrap_or_default();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || PATH_CHARS.contains(c));
    let has_options = directory
        .components()
        .any(|part| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b"-")));
    if text.starts_with('/') && is_plain && !has_options {
        return Ok(());
    }
    Err(format!("its path may have letters, digits and {PATH_CHARS} only, and no part that begins with `-`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_path_stays_below_the_directory() {
        assert_eq!(local_end("null:"), Ok(LocalEnd::Null));
        assert_eq!(local_end("a/b~c+d,e=f@g_1.x"), Ok(LocalEnd::File("a/b~c+d,e=f@g_1.x".into())));
        for escape in ["", "/etc/passwd", "../x", "a/../../x", "a/..", ".", "a//b", "a/", "./a"] {
            assert!(local_end(escape).is_err(), "{escape}");
        }
        assert!(local_end(".null-1").unwrap_err().contains("begins with `.`"));
        for option in ["-o", "a/-o", "--config=x"] {
            assert!(local_end(option).unwrap_err().contains("option"), "{option}");
        }
        for bad in ["a b", "a;b", "a$(b)", "a\nb", "a\0b", "a*b", "a:b", "a%20b", "zero:1", "ä", "a\\b", "a|b"] {
            assert!(local_end(bad).unwrap_err().contains("not allowed"), "{bad:?}");
        }
        assert!(local_end(&"a".repeat(256)).is_err() && local_end(&"a/".repeat(2000)).is_err());
    }

    #[test]
    fn a_url_has_an_allowed_scheme_a_host_and_nothing_secret() {
        let web = ["https", "http"];
        for fine in ["https://h/f", "http://127.0.0.1:80/a%20b", "https://[::1]:443/a~b/c+d,e=f@g", "https://h"] {
            assert!(remote_url(fine, &web).is_ok(), "{fine}");
        }
        assert!(remote_url("root://h:1094//data/f", &["root"]).is_ok());
        for (bad, why) in [
            ("file:///etc/passwd", "write https://HOST/PATH or http://HOST/PATH"),
            ("ftp://h/f", "write https"),
            ("HTTPS://h/f", "write https"),
            ("-K/etc/passwd", "write https"),
            ("https:///f", "write https"),
            ("https://-o/f", "no host"),
            ("https://:80/f", "no host"),
            ("https://user:s@h/f", "user or password"),
            ("https://h/f?authz=s", "query"),
            ("https://h/f#x", "fragment"),
            ("https://h/[1-9]", "brackets"),
            ("https://h/{a,b}", "not allowed"),
            ("https://h/a b", "not allowed"),
            ("https://h/a\n", "not allowed"),
            ("https://h/a\"b", "not allowed"),
            ("https://h/*", "not allowed"),
            ("https://h:99999/", "port"),
        ] {
            let error = remote_url(bad, &web).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
        assert!(remote_url(&format!("https://h/{}", "a".repeat(3000)), &web).is_err());
    }

    #[test]
    fn a_credential_is_not_sent_in_clear_text_over_a_network() {
        let may = |text: &str| may_carry_credential(&Url::parse(text).unwrap());
        assert!(
            may("https://h/")
                && may("http://127.0.0.1/")
                && may("http://[::1]/")
                && may("http://localhost/")
                && may("davs://h/")
        );
        assert!(!may("http://h/") && !may("http://192.0.2.1/") && !may("http://localhost.example/"));
    }

    #[test]
    fn a_server_has_a_host_and_a_port() {
        let host_port = |host: &str, port| HostPort { host: host.into(), port };
        assert_eq!(server("h.example:5201"), Ok(host_port("h.example", 5201)));
        assert_eq!(server("[2001:db8::1]:5201"), Ok(host_port("2001:db8::1", 5201)));
        for bad in ["", "h", "-c:5201", "h:", ":5201", "h:99999", "h 1:5201", "h%eth0:1", "h:1;x", "[::1]"] {
            assert!(server(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_directory_needs_no_escapes() {
        assert!(check_directory(Path::new("/data/scratch_1")).is_ok());
        for bad in ["scratch", "/data/a b", "/data/-x", "/data/ä", "/a:b"] {
            assert!(check_directory(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
