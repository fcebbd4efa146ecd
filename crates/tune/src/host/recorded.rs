//! A host as a recorded tree of files.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{FILE_BYTES_MAX, Host, HostError, HostResult};

/// The page size of nearly all hosts, for a tree without one.
const USUAL_PAGE_BYTES: u32 = 4_096;

/// A tree with `proc/`, `sys/`, `etc/`, and `ethtool/NIC/WHAT`, `netlink/NIC/WHAT`, `say/PROGRAM`, `pagesize` beside them. With the root
/// `/` its files are those of this host.
#[derive(Clone, Debug)]
pub struct Recorded {
    root: PathBuf,
}

impl Recorded {
    /// The host in a directory.
    pub fn new(root: &Path) -> Recorded {
        Recorded { root: root.to_owned() }
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// A file's text without the blanks around it, up to [`FILE_BYTES_MAX`].
pub(super) fn text(path: &Path) -> HostResult<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    String::from_utf8(bytes).map(|text| text.trim().to_owned()).map_err(|_| HostError::Failed("it is not text".into()))
}

/// Names in a directory, sorted.
pub(super) fn names(path: &Path) -> HostResult<Vec<String>> {
    let mut names: Vec<String> =
        fs::read_dir(path)?.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

impl Host for Recorded {
    fn read(&self, path: &Path) -> HostResult<String> {
        text(&self.at(path))
    }

    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        names(&self.at(path))
    }

    fn link(&self, path: &Path) -> HostResult<String> {
        let at = self.at(path);
        match fs::read_link(&at) {
            Ok(target) => Ok(target.to_string_lossy().into_owned()),
            // A link of sysfs may be recorded as a file with the target's path: not every archive keeps links.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => text(&at),
            Err(error) => Err(error.into()),
        }
    }

    fn ethtool(&self, nic: &str, what: &str) -> HostResult<String> {
        text(&self.root.join("ethtool").join(nic).join(what))
    }

    fn netlink(&self, nic: &str, what: &str) -> HostResult<String> {
        text(&self.root.join("netlink").join(nic).join(what))
    }

    /// `clock`: `yes 0.000123`, or `no 16`.
    fn clock(&self) -> HostResult<(bool, f64)> {
        let text = text(&self.root.join("clock"))?;
        let (synchronised, error_s) =
            text.split_once(' ').ok_or_else(|| HostError::Failed(format!("a clock of {text:?}")))?;
        let error_s = error_s.parse().map_err(|_| HostError::Failed(format!("a clock of {text:?}")))?;
        match synchronised {
            "yes" | "no" => Ok((synchronised == "yes", error_s)),
            _ => Err(HostError::Failed(format!("a clock of {text:?}"))),
        }
    }

    fn may_write(&self, path: &Path) -> bool {
        self.at(path).exists()
    }

    fn may_administer(&self) -> bool {
        true
    }

    fn read_exact(&self, path: &Path) -> HostResult<String> {
        Ok(fs::read_to_string(self.at(path))?)
    }

    fn write(&self, path: &Path, text: &str) -> HostResult<()> {
        let at = self.at(path);
        // The kernel's files exist already; only files of this program are created.
        if path.starts_with("/etc") {
            at.parent().map_or(Ok(()), fs::create_dir_all)?;
        } else if !at.exists() {
            return Err(HostError::Absent);
        }
        Ok(fs::write(at, text)?)
    }

    fn remove(&self, path: &Path) -> HostResult<()> {
        match fs::remove_file(self.at(path)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn set_ethtool(&self, nic: &str, what: &str, value: &str) -> HostResult<()> {
        Ok(fs::write(self.root.join("ethtool").join(nic).join(what), value)?)
    }

    fn set_netlink(&self, nic: &str, what: &str, value: &str) -> HostResult<()> {
        Ok(fs::write(self.root.join("netlink").join(nic).join(what), value)?)
    }

    fn first_output_line(&self, program: &str, words: &[&str]) -> HostResult<String> {
        let all = self.whole_output(program, words)?;
        let first = all.lines().next().filter(|line| !line.is_empty());
        first.map(str::to_owned).ok_or_else(|| HostError::Failed(format!("{program} prints nothing")))
    }

    fn whole_output(&self, program: &str, words: &[&str]) -> HostResult<String> {
        text(&self.root.join("say").join(std::iter::once(&program).chain(words).copied().collect::<Vec<_>>().join(" ")))
    }

    fn page_bytes(&self) -> HostResult<u32> {
        match text(&self.root.join("pagesize")) {
            Ok(bytes) => {
                let valid = bytes.parse().ok().filter(|bytes: &u32| bytes.is_power_of_two());
                valid.ok_or_else(|| HostError::Failed(format!("pages of {bytes:?} bytes")))
            }
            Err(HostError::Absent) => Ok(USUAL_PAGE_BYTES),
            Err(why) => Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_invalid_files_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let host = Recorded::new(dir.path());
        assert_eq!(host.read(Path::new("/proc/nothing")), Err(HostError::Absent));
        assert_eq!(host.ethtool("eth0", "driver"), Err(HostError::Absent));
        fs::create_dir_all(dir.path().join("proc/sys")).unwrap();
        fs::write(dir.path().join("proc/sys/x"), " 4096\t131072  6291456\n").unwrap();
        assert_eq!(super::super::sysctl(&host, "x", Some(2)), Ok("6291456".into()));
        assert_eq!(super::super::sysctl(&host, "x", None), Ok("4096 131072 6291456".into()));
        assert!(matches!(super::super::sysctl(&host, "x", Some(3)), Err(HostError::Failed(_))));
        fs::write(dir.path().join("proc/sys/y"), [0xFF, 0xFE]).unwrap();
        assert!(matches!(host.read(Path::new("/proc/sys/y")), Err(HostError::Failed(_))), "not text");
        assert_eq!(host.list(Path::new("/proc/sys")), Ok(vec!["x".into(), "y".into()]));
    }

    #[test]
    fn recorded_output_and_page_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let host = Recorded::new(dir.path());
        fs::create_dir_all(dir.path().join("say")).unwrap();
        fs::write(dir.path().join("say/nft list ruleset"), "table inet x {\n}\n").unwrap();
        fs::write(dir.path().join("say/true"), "\n").unwrap();
        assert_eq!(
            host.first_output_line("nft", &["list", "ruleset"]),
            Ok("table inet x {".into()),
            "only the first line"
        );
        assert_eq!(host.whole_output("nft", &["list", "ruleset"]), Ok("table inet x {\n}".into()));
        assert!(matches!(host.first_output_line("true", &[]), Err(HostError::Failed(_))));
        assert_eq!(host.whole_output("true", &[]), Ok(String::new()), "the output may be empty");
        assert_eq!(host.whole_output("false", &[]), Err(HostError::Absent));
        assert_eq!(host.page_bytes(), Ok(4_096));
        for (text, is) in [("65536\n", Some(65_536)), ("0\n", None), ("many\n", None), ("5000\n", None)] {
            fs::write(dir.path().join("pagesize"), text).unwrap();
            assert_eq!(host.page_bytes().ok(), is, "{text}");
        }
    }
}
