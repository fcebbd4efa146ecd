//! A copy as the command line describes it: its options, and the ends as typed. It knows no attempts, no sessions and no peer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::filelist::FileList;
use engine::scan::SourceRoot;
use model::Locator;
use model::spec::{self, LiveSettings, Options};
use parking_lot::Mutex;
use store::Store;

use crate::args::Cp;
use crate::commands::memory_test;
use crate::printer::Printer;
use crate::remote_stores::mirrors::Mirrors;
use crate::settings::Settings;

/// The number of streams where a remote server is at either end: each stream waits for that server's answer, file by file, however
/// short the path to the node is.
const REMOTE_STORE_STREAMS: u32 = 16;

/// A copy as the command line describes it.
pub struct CopyJob<'a> {
    pub cp: &'a Cp,
    pub settings: &'a Settings,
    pub printer: &'a Printer,
    /// Whether the target is a directory that the sources are copied into.
    pub(super) into_dir: bool,
    pub(super) cancel: Arc<AtomicBool>,
    pub(super) sources: &'a [Locator],
    pub(super) target: &'a Locator,
    pub(super) files: Option<FileList>,
    /// The source and its mirrors, where `--mirror` names any.
    pub(super) mirrors: Option<Mirrors>,
    /// Remote stores that were opened at either end, by their locators.
    pub(super) remote_stores: Mutex<Vec<(String, Arc<dyn Store>)>>,
    /// The sources that were opened to check the command line. The first attempt reads from them: a remote server is a login and more
    /// round trips away.
    pub(super) opened: Mutex<Vec<SourceRoot>>,
}

impl CopyJob<'_> {
    /// Whether the copy is from memory to memory, to test a path.
    pub fn is_test(&self) -> bool {
        memory_test::is_memory(self.target) && self.sources.iter().all(memory_test::is_memory)
    }

    /// Whether a remote store is at either end.
    pub(super) fn has_remote_store(&self) -> bool {
        self.mirrors.is_some() || is_on_remote_server(self.target) || self.sources.iter().any(is_on_remote_server)
    }

    pub(super) fn is_piped(&self) -> bool {
        self.sources.contains(&Locator::Pipe) || *self.target == Locator::Pipe
    }

    /// The options of the transfer.
    pub fn options(&self) -> Options {
        Options {
            recursive: self.cp.recursive,
            copy_links: self.cp.copy_links,
            into: self.into_dir,
            sync: spec::Sync::from(self.cp.sync),
            no_overwrite: self.cp.no_overwrite,
            durable: self.cp.durable,
            checksums: self.cp.checksums().to_vec(),
            delete: spec::Delete::from_options(self.cp.delete, self.cp.max_delete, self.cp.force),
            dry_run: self.cp.dry_run,
            owner: self.cp.owner,
            xattrs: self.cp.xattrs,
            wait_space: self.cp.wait_space,
            filters: self.cp.filters.clone(),
        }
    }

    /// The limit and the number of streams at the start.
    pub fn live_settings(&self) -> LiveSettings {
        let streams = match self.cp.streams {
            _ if self.is_piped() => 1,
            Some(streams) => streams,
            None if self.has_remote_store() => REMOTE_STORE_STREAMS,
            None => 0,
        };
        LiveSettings { limit_bit_s: self.cp.limit.map_or(0, |rate| rate.0), streams, paused: false }
    }

    /// Sources as typed.
    pub fn source_names(&self) -> Vec<String> {
        self.sources.iter().map(ToString::to_string).collect()
    }

    /// The locators of the sources.
    pub fn sources(&self) -> &[Locator] {
        self.sources
    }

    /// The locator of the target.
    pub fn target(&self) -> &Locator {
        self.target
    }

    /// Whether a server can make the copy by itself: no option needs this program.
    pub fn is_simple(&self) -> bool {
        let cp = self.cp;
        let has_options = cp.delete || cp.dry_run || cp.durable || cp.owner || cp.xattrs || !cp.filters.is_empty();
        let has_controls = cp.limit.is_some() || cp.streams.is_some() || cp.series.is_some() || cp.congestion.is_some();
        let has_digests =
            *cp.checksums() != Options::default().checksums && *cp.checksums() != [model::Algorithm::Crc32c];
        !has_options
            && !has_controls
            && !has_digests
            && self.files.is_none()
            && spec::Sync::from(cp.sync) != spec::Sync::Digest
    }

    /// The flag that is set when the user interrupts the command.
    pub fn cancel(&self) -> &Arc<AtomicBool> {
        &self.cancel
    }

    /// The target as typed.
    pub fn target_name(&self) -> String {
        self.target.to_string()
    }
}

/// Whether this process opens the locator itself: it is local, or on a remote server.
pub(super) fn is_opened_here(locator: &Locator) -> bool {
    matches!(locator, Locator::Local(_) | Locator::Zero(_) | Locator::Pipe | Locator::Null)
        || is_on_remote_server(locator)
}

pub(super) fn is_on_remote_server(locator: &Locator) -> bool {
    matches!(locator, Locator::Remote { .. })
}
