//! This host.

use std::path::Path;

use super::{Host, Known, Recorded, Unread};

/// This host: its files. What ethtool and rtnetlink know is not read yet.
#[derive(Clone, Debug)]
pub struct Live(Recorded);

impl Live {
    /// This host.
    pub fn new() -> Live {
        Live(Recorded::new(Path::new("/")))
    }
}

impl Default for Live {
    fn default() -> Live {
        Live::new()
    }
}

fn not_yet<T>() -> Known<T> {
    Err(Unread::Failed("this release cannot read it yet".into()))
}

impl Host for Live {
    fn read(&self, path: &Path) -> Known<String> {
        self.0.read(path)
    }

    fn list(&self, path: &Path) -> Known<Vec<String>> {
        self.0.list(path)
    }

    fn link(&self, path: &Path) -> Known<String> {
        self.0.link(path)
    }

    fn ethtool(&self, _: &str, _: &str) -> Known<String> {
        not_yet()
    }

    fn netlink(&self, _: &str, _: &str) -> Known<String> {
        not_yet()
    }

    fn clock(&self) -> Known<(bool, f64)> {
        not_yet()
    }

    fn may_write(&self, path: &Path) -> bool {
        std::fs::OpenOptions::new().write(true).open(path).is_ok()
    }

    fn may_administer(&self) -> bool {
        false
    }

    fn read_exact(&self, path: &Path) -> Known<String> {
        self.0.read_exact(path)
    }

    fn write(&self, path: &Path, text: &str) -> Known<()> {
        self.0.write(path, text)
    }

    fn remove(&self, path: &Path) -> Known<()> {
        self.0.remove(path)
    }

    fn set_ethtool(&self, _: &str, _: &str, _: &str) -> Known<()> {
        not_yet()
    }

    fn set_netlink(&self, _: &str, _: &str, _: &str) -> Known<()> {
        not_yet()
    }

    fn say(&self, _: &str, _: &[&str]) -> Known<String> {
        not_yet()
    }
}
