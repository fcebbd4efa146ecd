//! The settings of a node: from its command line, else from its settings file. They are read at start and at every reload.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::Rights;
use client::StateDir;
use engine::Timeouts;
use engine::movers::ConfiguredMovers;
use model::{Bytes, Locator, NodePlace};
use node::{ExerciseConfig, Export, Networks, NodeConfig, Responders, RootMovers, TapeProgram, WebConfig};
use serde::Deserialize;
use wire::limits::ADDRESSES_MAX;

use super::web;
use crate::args::{Anonymous, Common, Serve};
use crate::commands::tune;
use crate::failure::Failure;
use crate::remote_stores;
use crate::settings::{read_keys, state_dir};
use crate::toml_file;

/// The settings file: every option of `serve` under its own name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct SettingsFile {
    #[serde(default)]
    export: Vec<ExportEntry>,
    listen: Option<String>,
    #[serde(default)]
    advertise: Vec<String>,
    #[serde(default)]
    peers: Vec<String>,
    #[serde(default, rename = "root-movers")]
    root_movers: Vec<String>,
    #[serde(rename = "key-file")]
    key_file: Option<PathBuf>,
    anonymous: Option<Anonymous>,
    plain: Option<bool>,
    fips: Option<bool>,
    state: Option<PathBuf>,
    #[serde(default)]
    responders: Vec<String>,
    #[serde(rename = "twamp-listen")]
    twamp_listen: Option<SocketAddr>,
    #[serde(rename = "root-listen")]
    root_listen: Option<SocketAddr>,
    #[serde(default)]
    metrics: Vec<String>,
    audit: Option<bool>,
    exercise: Option<String>,
    certificate: Option<PathBuf>,
    #[serde(rename = "certificate-key")]
    certificate_key: Option<PathBuf>,
    #[serde(rename = "client-ca")]
    client_ca: Option<PathBuf>,
    vomsdir: Option<PathBuf>,
    cacert: Option<PathBuf>,
    access: Option<PathBuf>,
    #[serde(default)]
    fireflies: Vec<String>,
    #[serde(default, rename = "allow-origin")]
    allow_origin: Vec<String>,
}

/// An export in the settings file: text as on the command line, or a table with further settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "an export is \"NAME=DIR[:ro|:rw]\" or { at = \"NAME=DIR[:ro|:rw]\", recursive_delete = false, tape = \"PROGRAM\" }"
)]
enum ExportEntry {
    Plain(String),
    Table(ExportTable),
}

/// An export as a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportTable {
    /// As on the command line.
    at: String,
    /// Whether DELETE, MOVE and COPY over HTTP may remove a directory with its content.
    recursive_delete: Option<bool>,
    /// The program that brings files from tape, and takes files to tape.
    tape: Option<String>,
}

impl ExportEntry {
    fn export(&self) -> Result<Export, Failure> {
        Ok(match self {
            ExportEntry::Plain(at) => at.parse()?,
            ExportEntry::Table(ExportTable { at, recursive_delete, tape }) => {
                let export: Export = at.parse()?;
                let named = tape.as_deref().map(TapeProgram::parse).transpose().map_err(Failure::usage)?;
                let tape = named.or_else(|| export.tape.clone());
                Export { recursive_delete: recursive_delete.unwrap_or(true), tape, ..export }
            }
        })
    }
}

/// The source of the settings: the command line, and the file that it may name.
pub struct SettingsSource {
    serve: Serve,
    common: Common,
}

/// The settings of a node, from both sources.
pub struct NodeSettings {
    pub listen: Option<String>,
    pub state: PathBuf,
    advertise: Vec<SocketAddr>,
    movers: Option<Arc<ConfiguredMovers>>,
    root_movers: Option<Arc<RootMovers>>,
    pub exports: Vec<Export>,
    anonymous: Option<Rights>,
    plain: bool,
    pub fips: bool,
    responders: Responders,
    twamp_listen: Option<SocketAddr>,
    root_listen: Option<SocketAddr>,
    metrics: Networks,
    audit: bool,
    pub exercise: Option<ExerciseConfig>,
    web: WebConfig,
}

/// Further addresses of this host for streams. Names are refused, because other hosts may resolve them differently.
fn advertised_addresses(words: &[String]) -> Result<Vec<SocketAddr>, Failure> {
    let parse = |word: &String| {
        let at = word.parse::<SocketAddr>().or_else(|_| word.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0)));
        let at = at.ok().filter(|at| !at.ip().is_unspecified() && !at.ip().is_multicast());
        at.map(|at| SocketAddr::new(at.ip().to_canonical(), at.port())).ok_or_else(|| {
            let form = "write an address at which others reach this host, like 192.0.2.7, 192.0.2.7:7411 or [2001:db8::7]:7411";
            Failure::usage(format!("--advertise {word}: {form}"))
        })
    };
    if words.len() > ADDRESSES_MAX {
        return Err(Failure::usage(format!("--advertise: {} addresses; at most {ADDRESSES_MAX}", words.len())));
    }
    words.iter().map(parse).collect()
}

/// The directory of scratch places, and their quota.
fn exercise(text: &str) -> Result<ExerciseConfig, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("--exercise {text}: {why} (write DIR or DIR,quota=SIZE, such as /scratch,quota=10TB)"))
    };
    let (dir, quota) = text.rsplit_once(",quota=").map_or((text, None), |(dir, size)| (dir, Some(size)));
    if dir.is_empty() {
        return Err(wrong("it names no directory".into()));
    }
    let quota_bytes = quota.map(str::parse::<Bytes>).transpose().map_err(|error| wrong(error.to_string()))?;
    Ok(ExerciseConfig { dir: dir.into(), quota_bytes: quota_bytes.map(|bytes| bytes.0) })
}

/// Movers that an option names, with the access keys for them; none where it names none.
fn movers_of(option: &str, words: &[String], common: &Common) -> Result<Option<RootMovers>, Failure> {
    let parse = |word: &String| {
        let text = if word.contains("://") { word.clone() } else { format!("lh://{word}") };
        match Locator::parse(text.as_ref()) {
            Ok(Locator::Node { at, place: NodePlace::Exports, .. }) => Ok(at),
            _ => Err(Failure::usage(format!("{option} {word}: write HOST, HOST:PORT or [v6]:PORT"))),
        }
    };
    let addresses = words.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if addresses.is_empty() {
        return Ok(None);
    }
    let keys = read_keys(common)?;
    if keys.is_empty() {
        let remedy = "on each of them: longhaul grant --export NAME --write; put the keys into a file, and name it by --key-file";
        return Err(Failure::usage(format!("{option}: there is no access key of a mover ({remedy})")));
    }
    Ok(Some(RootMovers { addresses, keys: keys.into() }))
}

impl SettingsSource {
    /// The settings of this command line, and of the file that it may name.
    pub fn new(serve: Serve, common: Common) -> SettingsSource {
        SettingsSource { serve, common }
    }

    /// Reads the settings file, and the files that it or the command line names. The command line wins.
    ///
    /// # Errors
    /// A file cannot be read, or a setting is wrong.
    pub fn read(&self) -> Result<NodeSettings, Failure> {
        let serve = &self.serve;
        let common = &self.common;
        let file = self.file()?;
        let list =
            |typed: &Vec<String>, from_file: Vec<String>| if typed.is_empty() { from_file } else { typed.clone() };
        let web_options = web::WebOptions {
            certificate: serve.certificate.clone().or(file.certificate),
            certificate_key: serve.certificate_key.clone().or(file.certificate_key),
            client_ca: serve.client_ca.clone().or(file.client_ca),
            vomsdir: serve.vomsdir.clone().or(file.vomsdir),
            cacert: common.cacert.clone().or(file.cacert),
            access: serve.access.clone().or(file.access),
            fireflies: list(&serve.fireflies, file.fireflies),
            allow_origin: list(&serve.allow_origin, file.allow_origin),
        };
        let rights = |anonymous| match anonymous {
            Anonymous::Ro => Rights::Read,
            Anonymous::Rw => Rights::Write,
        };
        let web = web::config(&web_options)?;
        let mut exports = match serve.export.as_slice() {
            [] => file.export.iter().map(ExportEntry::export).collect::<Result<Vec<_>, _>>()?,
            typed => typed.iter().map(|text| text.parse::<Export>()).collect::<Result<Vec<_>, _>>()?,
        };
        for export in &mut exports {
            export.remote_store = remote_stores::export(&export.dir, web.authorities.as_ref())?;
        }
        let keys = Common { key_file: common.key_file.clone().or(file.key_file), ..common.clone() };
        let movers = movers_of("--peers", &list(&serve.peers, file.peers), &keys)?;
        Ok(NodeSettings {
            listen: serve.listen.clone().or(file.listen),
            advertise: advertised_addresses(&list(&serve.advertise, file.advertise))?,
            movers: movers.map(|RootMovers { addresses, keys }| node::movers(addresses, keys, Timeouts::default())),
            root_movers: movers_of("--root-movers", &list(&serve.root_movers, file.root_movers), &keys)?.map(Arc::new),
            state: state_dir(common.state.as_ref().or(file.state.as_ref()))?,
            exports,
            anonymous: serve.anonymous.or(file.anonymous).map(rights),
            plain: serve.plain || file.plain.unwrap_or(false),
            fips: common.fips || file.fips.unwrap_or(false),
            responders: Responders::parse(&list(&serve.responders, file.responders)).map_err(Failure::usage)?,
            twamp_listen: serve.twamp_listen.or(file.twamp_listen),
            root_listen: serve.root_listen.or(file.root_listen),
            metrics: Networks::parse("--metrics", &list(&serve.metrics, file.metrics)).map_err(Failure::usage)?,
            audit: serve.audit || file.audit.unwrap_or(false),
            exercise: serve.exercise.as_ref().or(file.exercise.as_ref()).map(|text| exercise(text)).transpose()?,
            web,
        })
    }

    /// Restricts this process to approved ciphers if the settings say so. Everything else that is read may make connections.
    ///
    /// # Errors
    /// The settings file cannot be read.
    pub fn restrict_ciphers(&self) -> Result<(), Failure> {
        if self.common.fips || self.file()?.fips.unwrap_or(false) {
            auth::approved::restrict();
        }
        Ok(())
    }

    fn file(&self) -> Result<SettingsFile, Failure> {
        Ok(self.serve.config.as_deref().map(toml_file::read).transpose()?.unwrap_or_default())
    }

    /// Whether a settings file is named.
    pub fn has_file(&self) -> bool {
        self.serve.config.is_some()
    }
}

impl NodeSettings {
    /// The certificate that HTTP clients see, unless it is the node's own.
    pub fn certificate(&self) -> Option<&node::Certificate> {
        self.web.certificate.as_deref()
    }

    /// The configuration of a node at this address, with this state directory.
    pub fn config(self, listen: SocketAddr, state: StateDir) -> NodeConfig {
        NodeConfig {
            advertise: self.advertise,
            movers: self.movers,
            root_movers: self.root_movers,
            exports: self.exports,
            anonymous: self.anonymous,
            plain: self.plain,
            web: self.web,
            responders: self.responders,
            twamp_listen: self.twamp_listen,
            root_listen: self.root_listen,
            metrics: self.metrics,
            audit: self.audit.then_some(tune::audit_lines as node::Audit),
            exercise: self.exercise,
            ..NodeConfig::new(listen, state)
        }
    }
}

/// The keys of the settings file. None holds a secret, so `longhaul support` copies their values.
pub const KEYS: [&str; 24] = [
    "export",
    "listen",
    "advertise",
    "peers",
    "root-movers",
    "key-file",
    "anonymous",
    "plain",
    "fips",
    "state",
    "responders",
    "twamp-listen",
    "root-listen",
    "metrics",
    "audit",
    "exercise",
    "certificate",
    "certificate-key",
    "client-ca",
    "vomsdir",
    "cacert",
    "access",
    "fireflies",
    "allow-origin",
];

/// The state directory that a settings file names; none if the file cannot be read or names none.
pub fn state_in_file(path: &Path) -> Option<PathBuf> {
    toml_file::read::<SettingsFile>(path).ok()?.state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_a_settings_file_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.toml");
        for (text, line) in [("plain = true\n\nexpert = 1\n", "line 3"), ("plain = 7", "line 1"), ("\n[", "line 2")] {
            std::fs::write(&path, text).unwrap();
            let message = toml_file::read::<SettingsFile>(&path).unwrap_err().message;
            assert!(message.contains(line) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn an_export_may_be_a_table() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let file = toml_file::read::<SettingsFile>(&path).map_err(|failure| failure.message)?;
            let exports = file.export.iter().map(ExportEntry::export).collect::<Result<Vec<_>, _>>();
            exports
                .map(|all| all.into_iter().map(|e| (e.name, e.writable, e.recursive_delete)).collect::<Vec<_>>())
                .map_err(|f| f.message)
        };
        let two = "export = [\"a=/a:rw\", { at = \"b=/b:rw\", recursive_delete = false }]";
        assert_eq!(read(two).unwrap(), [("a".into(), true, true), ("b".into(), true, false)]);
        assert_eq!(read("[[export]]\nat = \"c=/c\"\n").unwrap(), [("c".into(), false, true)]);
        for bad in
            ["export = [7]", "export = [{ at = \"a=/a\", delete = true }]", "export = [{ recursive_delete = true }]"]
        {
            assert!(read(bad).unwrap_err().contains("recursive_delete = false, tape"), "{bad}");
        }
    }

    #[test]
    fn advertised_addresses_are_reachable_by_others() {
        let read = |word: &str| advertised_addresses(&[word.to_owned()]);
        assert_eq!(read("192.0.2.7").unwrap(), ["192.0.2.7:0".parse().unwrap()]);
        assert_eq!(read("[2001:db8::7]:99").unwrap(), ["[2001:db8::7]:99".parse().unwrap()]);
        assert_eq!(read("::ffff:192.0.2.7").unwrap(), ["192.0.2.7:0".parse().unwrap()]);
        for bad in ["", "dtn.example", "0.0.0.0", "[::]:7411", "224.0.0.1", "192.0.2.0/24"] {
            assert!(read(bad).is_err_and(|failure| failure.message.contains("--advertise")), "{bad}");
        }
        assert!(advertised_addresses(&vec!["192.0.2.7".to_owned(); 17]).is_err());
    }

    #[test]
    fn a_directory_of_scratch_places_may_have_a_quota() {
        let read = |text: &str| exercise(text).map(|config| (config.dir.display().to_string(), config.quota_bytes));
        assert_eq!(read("/s").unwrap(), ("/s".into(), None));
        assert_eq!(read("/s,quota=10TB").unwrap(), ("/s".into(), Some(10_000_000_000_000)));
        assert_eq!(read("/s,t,quota=1GiB").unwrap(), ("/s,t".into(), Some(1 << 30)));
        for bad in ["", ",quota=1TB", "/s,quota=", "/s,quota=much"] {
            assert!(read(bad).is_err_and(|failure| failure.message.contains("DIR,quota=SIZE")), "{bad:?}");
        }
    }

    #[test]
    fn the_list_of_keys_has_every_key_of_the_settings_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.toml");
        let text = |key: &str| match key {
            "export" | "advertise" | "peers" | "root-movers" | "responders" | "metrics" | "fireflies"
            | "allow-origin" => {
                format!("{key} = []\n")
            }
            "plain" | "fips" | "audit" => format!("{key} = true\n"),
            "twamp-listen" | "root-listen" => format!("{key} = \"127.0.0.1:862\"\n"),
            "anonymous" => format!("{key} = \"ro\"\n"),
            _ => format!("{key} = \"x\"\n"),
        };
        std::fs::write(&path, KEYS.map(text).concat()).unwrap();
        let file: SettingsFile = toml_file::read(&path).unwrap();
        // A key that is in the struct but not in `KEYS` would be unset here.
        let SettingsFile {
            listen,
            anonymous,
            plain,
            fips,
            state,
            audit,
            exercise,
            certificate,
            certificate_key,
            client_ca,
            vomsdir,
            cacert,
            access,
            key_file,
            ..
        } = file;
        assert!(listen.is_some() && anonymous.is_some() && plain.is_some() && state.is_some() && audit.is_some());
        assert!(exercise.is_some() && fips.is_some());
        let files = [certificate, certificate_key, client_ca, vomsdir, cacert, access, key_file];
        assert!(files.iter().all(Option::is_some));
        std::fs::write(&path, "keys = 1").unwrap();
        let message = toml_file::read::<SettingsFile>(&path).unwrap_err().message;
        let expected: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
        assert_eq!(expected, KEYS, "{message}");
    }
}
