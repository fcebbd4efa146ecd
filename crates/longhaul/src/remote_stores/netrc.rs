//! `~/.netrc`: users and passwords at servers of FTP, as ftp and curl read them.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use remote::ftp::FtpUser;

/// The most bytes of the file.
const BYTES_MAX: u64 = 1 << 20;

/// An entry: a user at a host, or at every host without an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NetrcEntry {
    /// None for `default`.
    host: Option<String>,
    login: String,
    password: String,
}

/// The entries of a file; none where it does not exist.
///
/// # Errors
/// It cannot be read, or others can read it.
pub(super) fn read(path: &Path) -> Result<Option<Vec<NetrcEntry>>, String> {
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    let mode = file.metadata().map_err(cannot)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "others on this host can read the passwords in {shown} (mode {mode:04o}): chmod 600 {shown}"
        ));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(cannot)?;
    Ok(Some(parse(&text)))
}

/// The entries of a text. Words of other kinds are left out: `account`, and macros up to an empty line.
fn parse(text: &str) -> Vec<NetrcEntry> {
    let mut entries: Vec<NetrcEntry> = Vec::new();
    let mut in_macro = false;
    let mut words = Vec::new();
    for line in text.lines() {
        if in_macro {
            in_macro = !line.trim().is_empty();
            continue;
        }
        if line.trim_start().starts_with('#') {
            continue;
        }
        in_macro = line.split_whitespace().any(|word| word == "macdef");
        words.extend(line.split_whitespace().take_while(|word| *word != "macdef"));
    }
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default().to_owned();
        match (word, entries.last_mut()) {
            ("machine", _) => entries.push(NetrcEntry { host: Some(value()), ..NetrcEntry::default() }),
            ("default", _) => entries.push(NetrcEntry::default()),
            ("login", Some(entry)) => entry.login = value(),
            ("password", Some(entry)) => entry.password = value(),
            ("account", Some(_)) => drop(value()),
            _ => {}
        }
    }
    entries
}

/// The user at a host: the one with this name, or the first one.
pub(super) fn user(entries: &[NetrcEntry], host: &str, name: Option<&str>) -> Option<FtpUser> {
    let fits = |entry: &&NetrcEntry| name.is_none_or(|name| entry.login == name) && !entry.login.is_empty();
    let own = entries.iter().filter(|entry| entry.host.as_deref() == Some(host)).find(fits);
    let found = own.or_else(|| entries.iter().filter(|entry| entry.host.is_none()).find(fits))?;
    Some(FtpUser { name: found.login.clone(), password: found.password.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# archives\nmachine a.example login ann password one\nmachine a.example\n  login bob\n  password two\n\
        macdef init\nmachine wrong login x\n\nmachine b.example login carl account x password three\ndefault login anonymous password me@\n";

    #[test]
    fn an_entry_is_found_by_its_host_and_user() {
        let entries = parse(TEXT);
        let found = |host: &str, name: Option<&str>| user(&entries, host, name).map(|user| (user.name, user.password));
        let pair = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
        assert_eq!(found("a.example", None), pair("ann", "one"));
        assert_eq!(found("a.example", Some("bob")), pair("bob", "two"));
        assert_eq!(found("b.example", None), pair("carl", "three"));
        assert_eq!(found("c.example", None), pair("anonymous", "me@"));
        assert_eq!(found("c.example", Some("ann")), None);
        assert_eq!(found("wrong", Some("x")), None, "a macro has no entries");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("netrc");
        assert_eq!(read(&file), Ok(None));
        std::fs::write(&file, TEXT).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&file).unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&file).unwrap().unwrap().len(), 4);
    }
}
