//! The files of an installation: settings, state, identity, exports, certificate. Nothing is made or changed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use clap::Parser;
use model::units::Bytes;
use node::{Certificate, Export};
use rustix::fs::{Access, StatVfs, StatVfsMountFlags};

use super::Diagnosis;
use crate::args::{Args, Command};
use crate::commands::installed_node::InstalledNode;
use crate::commands::serve::{NodeSettings, SettingsSource};

/// Below this space journals of transfers soon find no room.
const STATE_SPACE_MIN: u64 = 1 << 30;
/// Below this share of its space a file system is nearly full.
const EXPORT_SPACE_MIN: f64 = 0.05;
/// A certificate that ends sooner should be renewed now.
const CERTIFICATE_SECONDS_MIN: i64 = 14 * 86_400;

/// The settings of the node, as `longhaul serve --config` would read them.
pub fn settings(node: &InstalledNode) -> (Diagnosis, Option<NodeSettings>) {
    let Some(path) = &node.config else {
        let found = "there is no settings file: exports and certificate are not checked";
        return (Diagnosis::unknown("settings", found, "name the file by --config, if the node has one"), None);
    };
    let words = ["longhaul".into(), "serve".into(), "--config".into(), path.clone().into_os_string()];
    let parsed = Args::try_parse_from(words).map_err(|error| error.to_string());
    let read = parsed.and_then(|Args { common, command, .. }| match command {
        Command::Serve(serve) => SettingsSource::new(serve, common).read().map_err(|failure| failure.message),
        _ => Err("they are not those of a node".to_owned()),
    });
    let name = path.display();
    match read {
        Ok(settings) => {
            let exports = settings.exports.len();
            (Diagnosis::well("settings", format!("{name} is valid, with {exports} exports")), Some(settings))
        }
        Err(why) => {
            let remedy = format!("correct {name}: the node would not start with it");
            (Diagnosis::problem("settings", why, remedy), None)
        }
    }
}

/// The state directory and the identity in it.
pub fn state(dir: &Path) -> Vec<Diagnosis> {
    let name = dir.display();
    let metadata = match fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) => {
            let remedy = "start the node, which makes it; or name the right one by --state";
            return vec![Diagnosis::problem("state directory", format!("{name}: {error}"), remedy)];
        }
    };
    let mut diagnoses = Vec::new();
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let found = format!("others can look into {name} (mode {mode:04o})");
        diagnoses.push(Diagnosis::warning("state directory", found, format!("chmod 700 {name}")));
    }
    if let Ok(space) = rustix::fs::statvfs(dir) {
        let free = free_bytes(&space);
        diagnoses.push(if free < STATE_SPACE_MIN {
            let found = format!("{} are free in {name}: journals of transfers soon find no room", Bytes(free));
            Diagnosis::problem("state directory", found, "make room on its file system")
        } else {
            Diagnosis::well("state directory", format!("{name}, {} free", Bytes(free)))
        });
    }
    diagnoses.push(identity(dir));
    diagnoses
}

fn identity(dir: &Path) -> Diagnosis {
    let [key, certificate] = ["identity.key.der", "identity.cert.der"].map(|name| dir.join(name));
    let Ok(metadata) = fs::metadata(&key) else {
        let found = format!("there is none in {}", dir.display());
        return Diagnosis::warning(
            "identity",
            found,
            "start the node, which makes one; or restore the directory from a backup",
        );
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let found = format!("others can read the private key {} (mode {mode:04o})", key.display());
        let remedy = format!(
            "chmod 600 {}; if others use this host, the key may be known to them: make a new identity",
            key.display()
        );
        return Diagnosis::problem("identity", found, remedy);
    }
    let shown = fs::read(&certificate).ok().and_then(|der| engine::identity::fingerprint(&der.into()));
    match shown {
        Some(fingerprint) => Diagnosis::well("identity", format!("{fingerprint}; only its owner can read the key")),
        None => Diagnosis::unknown(
            "identity",
            format!("{} cannot be read", certificate.display()),
            format!("run the command as the user of the node (uid {}) or as root", metadata.uid()),
        ),
    }
}

/// An export: the directory, its space, and whether it can be written.
pub fn export(export: &Export) -> Diagnosis {
    let check = format!("export {}", export.name);
    let dir = export.dir.display();
    if export.remote_store.is_some() {
        return Diagnosis::well(check, format!("{dir}, on another server, which is not asked here"));
    }
    match fs::metadata(&export.dir) {
        Err(error) => {
            return Diagnosis::problem(
                check,
                format!("{dir}: {error}"),
                "mount or make the directory, or correct the setting",
            );
        }
        Ok(metadata) if !metadata.is_dir() => {
            return Diagnosis::problem(check, format!("{dir} is not a directory"), "correct the setting");
        }
        Ok(_) => {}
    }
    match rustix::fs::statvfs(&export.dir) {
        Err(error) => Diagnosis::unknown(check, format!("{dir}: {error}"), "look at its file system"),
        Ok(space) => judge_space(check, export, &space),
    }
}

fn judge_space(check: String, export: &Export, space: &StatVfs) -> Diagnosis {
    let dir = export.dir.display();
    if export.writable && space.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let remedy =
            "mount it writable, or export it read-only (:ro); file systems become read-only after errors: see dmesg";
        return Diagnosis::problem(check, format!("{dir} is mounted read-only, and the export is :rw"), remedy);
    }
    if export.writable && rustix::fs::access(&export.dir, Access::WRITE_OK).is_err() {
        let found = format!("this user cannot write to {dir}, and the export is :rw");
        return Diagnosis::warning(
            check,
            found,
            "run the command as the user of the node; if it is the same, change the owner of the directory",
        );
    }
    let (free, all) = (free_bytes(space), space.f_blocks.saturating_mul(space.f_frsize));
    let share = free as f64 / all.max(1) as f64;
    let text = format!("{dir}, {} of {} free", Bytes(free), Bytes(all));
    if export.writable && share < EXPORT_SPACE_MIN {
        return Diagnosis::warning(
            check,
            format!("{text}: uploads will soon fail"),
            "make room, or lead uploads elsewhere",
        );
    }
    if export.writable && space.f_files > 0 && space.f_favail == 0 {
        return Diagnosis::problem(
            check,
            format!("{dir}: no further file can be made (no inode is free)"),
            "remove files, or enlarge the file system",
        );
    }
    Diagnosis::well(check, text)
}

fn free_bytes(space: &StatVfs) -> u64 {
    space.f_bavail.saturating_mul(space.f_frsize)
}

/// The certificate that HTTP clients see.
pub fn certificate(certificate: Option<&Certificate>) -> Diagnosis {
    let Some(certificate) = certificate else {
        return Diagnosis::well("certificate", "none of an authority: HTTP clients see the node's own");
    };
    let ends = certificate.chain.iter().filter_map(|one| auth::x509::valid_until(one)).min();
    judge_end(ends, jiff::Timestamp::now().as_second())
}

fn judge_end(ends: Option<i64>, now: i64) -> Diagnosis {
    let Some(ends) = ends else {
        return Diagnosis::problem(
            "certificate",
            "it cannot be read as X.509",
            "give --certificate the chain as PEM, the node's own first",
        );
    };
    let date =
        jiff::Timestamp::from_second(ends).map_or_else(|_| ends.to_string(), |at| at.strftime("%Y-%m-%d").to_string());
    let days = (ends - now) / 86_400;
    let remedy = "renew it, then reload the node (systemctl reload longhaul)";
    if ends <= now {
        return Diagnosis::problem(
            "certificate",
            format!("it has ended on {date}: HTTP clients refuse the node"),
            remedy,
        );
    }
    if ends - now < CERTIFICATE_SECONDS_MIN {
        return Diagnosis::warning("certificate", format!("it ends in {days} days, on {date}"), remedy);
    }
    Diagnosis::well("certificate", format!("valid for {days} more days, until {date}"))
}

#[cfg(test)]
mod tests {
    use super::super::CheckStatus;
    use super::*;

    #[test]
    fn a_certificate_near_its_end_draws_a_warning() {
        const DAY: i64 = 86_400;
        let status = |ends| judge_end(Some(ends), 100 * DAY).status;
        assert_eq!(status(130 * DAY), CheckStatus::Well);
        assert_eq!(status(110 * DAY), CheckStatus::Warning);
        assert_eq!(status(100 * DAY), CheckStatus::Critical);
        assert!(judge_end(Some(110 * DAY), 100 * DAY).found.contains("in 10 days, on 1970-04-21"));
        assert_eq!(judge_end(None, 0).status, CheckStatus::Critical);
    }

    #[test]
    fn a_directory_that_is_not_there_or_open_to_others_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let missing = Export::here("data", dir.path().join("none"), false);
        assert_eq!(export(&missing).status, CheckStatus::Critical);
        assert_eq!(export(&Export::here("data", dir.path(), true)).status, CheckStatus::Well);
        assert_eq!(state(&dir.path().join("none"))[0].status, CheckStatus::Critical);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(state(dir.path()).iter().any(|diagnosis| diagnosis.found.contains("mode 0755")));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let key = dir.path().join("identity.key.der");
        fs::write(&key, "key").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(identity(dir.path()).status, CheckStatus::Critical);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(identity(dir.path()).status, CheckStatus::Unknown, "without a certificate");
    }
}
