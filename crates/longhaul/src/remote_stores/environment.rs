//! Credentials for remote servers from the environment: bearer tokens in the order of WLCG Bearer Token Discovery, keys for S3 where
//! Amazon's tools look for them, and passwords for FTP from `~/.netrc`.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::remote_store::{self, Error};
use remote::TokenSource;
use remote::ftp::FtpUser;
use remote::s3::{Bucket, Credentials};
use rustix::fs::OFlags;

use super::netrc;

/// The longest token that is read, bytes.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// The longest file of profiles that is read, bytes.
const PROFILES_BYTES_MAX: u64 = 1 << 20;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The bearer token (WLCG Bearer Token Discovery 1.0): from BEARER_TOKEN, the file that BEARER_TOKEN_FILE names, then the two
/// default files. A token that cannot be read ends the search, because the next one may belong to another principal.
fn token() -> Result<Option<String>, String> {
    if let Some(text) = variable("BEARER_TOKEN") {
        return check_token(text.trim(), "BEARER_TOKEN").map(Some);
    }
    if let Some(file) = variable("BEARER_TOKEN_FILE") {
        let file = PathBuf::from(file);
        return match read(&file)? {
            Some(token) => Ok(Some(token)),
            None => Err(format!("BEARER_TOKEN_FILE names {}, which is not there or empty", file.display())),
        };
    }
    let name = format!("bt_u{}", rustix::process::geteuid().as_raw());
    let runtime = variable("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join(&name));
    for file in runtime.into_iter().chain([Path::new("/tmp").join(&name)]) {
        if let Some(token) = read(&file)? {
            return Ok(Some(token));
        }
    }
    Ok(None)
}

/// Checks that a token has only the characters that a header may carry (RFC 6750, section 2.1).
fn check_token(token: &str, place: &str) -> Result<String, String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=:%".contains(&b);
    if token.bytes().all(fits) {
        Ok(token.to_owned())
    } else {
        Err(format!("{place} holds no token: a token has no spaces, and only characters that a header may carry"))
    }
}

/// The token in a file; none where the file is missing or empty. A file of another user is an error, because everybody can write
/// to /tmp.
fn read(path: &Path) -> Result<Option<String>, String> {
    let shown = path.display();
    // No link is followed and no open blocks: another user can put a link or a FIFO of that name into /tmp.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = File::options().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read the token in {shown}: {error}")),
    };
    let metadata = file.metadata().map_err(|error| format!("cannot read the token in {shown}: {error}"))?;
    if !metadata.is_file() || metadata.len() > TOKEN_BYTES_MAX {
        return Err(format!(
            "the token in {shown} is not used: it is not a regular file of at most {TOKEN_BYTES_MAX} bytes"
        ));
    }
    let owner = metadata.uid();
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        return Err(format!("the token in {shown} belongs to another user (uid {owner}) and is not used"));
    }
    let mut text = String::new();
    let read = file.take(TOKEN_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| format!("cannot read the token in {shown}: {error}"))?;
    let token = text.trim();
    if token.is_empty() { Ok(None) } else { check_token(token, &shown.to_string()).map(Some) }
}

/// The credentials that the environment of this process names.
pub struct Environment;

impl remote_store::Credentials for Environment {
    fn token(&self) -> Arc<TokenSource> {
        Arc::new(token)
    }

    fn bucket(&self, name: &str) -> Result<Bucket, Error> {
        bucket(name).map_err(Error::Credentials)
    }

    fn ftp_user(&self, host: &str, name: Option<&str>) -> Result<Option<FtpUser>, Error> {
        ftp_user(host, name).map_err(Error::Credentials)
    }

    fn ssh(&self) -> Vec<String> {
        let command = variable("LONGHAUL_SSH").unwrap_or_else(|| "ssh".to_owned());
        command.split_whitespace().map(str::to_owned).collect()
    }
}

/// The user at an FTP server, from the file that NETRC names, or `~/.netrc`.
fn ftp_user(host: &str, name: Option<&str>) -> Result<Option<FtpUser>, String> {
    let named = variable("NETRC").map(PathBuf::from);
    let file = named.or_else(|| Some(Path::new(&variable("HOME")?).join(".netrc")));
    let found = file.as_deref().map(netrc::read).transpose()?.flatten();
    match (found.and_then(|entries| netrc::user(&entries, host, name)), name) {
        (Some(user), _) => Ok(Some(user)),
        (None, None | Some("anonymous" | "ftp")) => Ok(None),
        (None, Some(name)) => Err(format!(
            "there is no password of {name} at {host}: write it into ~/.netrc (machine {host} login {name} password PASSWORD)"
        )),
    }
}

/// A bucket and its key: from variables first, then from the profile in the files that Amazon's tools share.
fn bucket(name: &str) -> Result<Bucket, String> {
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let settings = profile_settings(&profile)?;
    let either = |variables: &[&str], key: &str| {
        variables.iter().find_map(|name| variable(name)).or_else(|| settings.get(key).cloned())
    };
    let endpoint = either(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"], "endpoint_url");
    // A wrong key is found here as a usage error; later it would look like a failure of the server.
    s3_key(&profile)?;
    Ok(Bucket {
        name: name.to_owned(),
        region: either(&["AWS_REGION", "AWS_DEFAULT_REGION"], "region").unwrap_or_else(|| "us-east-1".to_owned()),
        virtual_hosted: variable("AWS_S3_ADDRESSING_STYLE").is_some_and(|style| style == "virtual"),
        endpoint,
        credentials: Arc::new(move || s3_key(&profile)),
    })
}

/// The key of a profile. It is read anew for each use, because tools renew the keys of sessions in the file.
fn s3_key(profile: &str) -> Result<Option<Credentials>, String> {
    match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        (Some(key), Some(secret)) => Ok(Some(Credentials { key, secret, token: variable("AWS_SESSION_TOKEN") })),
        (Some(_), None) => Err("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not".to_owned()),
        (None, _) => {
            let mut settings = profile_settings(profile)?;
            let both = settings.remove("aws_access_key_id").zip(settings.remove("aws_secret_access_key"));
            let token = settings.remove("aws_session_token");
            Ok(both.map(|(key, secret)| Credentials { key, secret, token }))
        }
    }
}

/// The settings of a profile from both shared files: the one with settings, then the one with secrets.
fn profile_settings(profile: &str) -> Result<HashMap<String, String>, String> {
    let home = || variable("HOME").map(|home| Path::new(&home).join(".aws"));
    let place = |file_variable: &str, name: &str| {
        variable(file_variable).map(PathBuf::from).or_else(|| Some(home()?.join(name)))
    };
    let mut all = HashMap::new();
    for (file, section) in [
        (place("AWS_CONFIG_FILE", "config"), format!("profile {profile}")),
        (place("AWS_SHARED_CREDENTIALS_FILE", "credentials"), profile.to_owned()),
    ] {
        let Some(file) = file.filter(|file| file.exists()) else { continue };
        let cannot = |e: std::io::Error| format!("cannot read {}: {e}", file.display());
        let mut text = String::new();
        File::open(&file).map_err(cannot)?.take(PROFILES_BYTES_MAX).read_to_string(&mut text).map_err(cannot)?;
        all.extend(section_settings(&text, &section, profile == "default"));
    }
    Ok(all)
}

/// The settings of a section: `[NAME]`, then `key = value` lines. The default profile has no prefix in either file.
fn section_settings(text: &str, section: &str, is_default: bool) -> HashMap<String, String> {
    let mut within = false;
    let mut keys = HashMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            within = name.trim() == section || is_default && name.trim() == "default";
        } else if let Some((key, value)) = line.split_once('=').filter(|_| within && !line.starts_with(['#', ';'])) {
            keys.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_from_its_section() {
        let text = "[default]\nregion = eu-west-1\n# x = 1\n[profile far]\nendpoint_url=https://h:1\nregion = x\n";
        assert_eq!(
            section_settings(text, "profile default", true).get("region").map(String::as_str),
            Some("eu-west-1")
        );
        let far = section_settings(text, "profile far", false);
        assert_eq!(far.get("endpoint_url").map(String::as_str), Some("https://h:1"));
        assert!(section_settings(text, "profile other", false).is_empty() && !far.contains_key("x"));
    }

    #[test]
    fn a_token_is_one_word_in_a_file_of_this_user() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t");
        assert_eq!(read(&file), Ok(None));
        for (text, token) in [("  abc.def-_~=\n", Ok(Some("abc.def-_~=".to_owned()))), (" \n", Ok(None))] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(&file), token);
        }
        std::fs::write(&file, "two words").unwrap();
        assert!(read(&file).unwrap_err().contains("no token"));
        if rustix::process::geteuid().is_root() {
            std::fs::write(&file, "abc").unwrap();
            std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
            assert!(read(&file).unwrap_err().contains("another user"));
        }
    }
}
