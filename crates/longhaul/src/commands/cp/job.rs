//! A copy as it was asked for, before it is known how it is done.
//!
//! Does not know: attempts, sessions, what is at the other end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::filelist::FileList;
use model::Locator;
use model::spec::{self, Options, Steer};
use parking_lot::Mutex;
use store::Store;

use crate::args::Cp;
use crate::commands::test;
use crate::printer::Printer;
use crate::remote_stores::mirrors::Mirrors;
use crate::settings::Settings;

/// Streams where somebody else's server is at either end: each waits for that server's answers, file by file, however short the
/// way to the node is.
const ABROAD_STREAMS: u32 = 16;

/// A copy, as it was asked for.
pub struct Job<'a> {
    pub cp: &'a Cp,
    pub settings: &'a Settings,
    pub printer: &'a Printer,
    pub(super) into: bool,
    pub(super) cancel: Arc<AtomicBool>,
    pub(super) sources: &'a [Locator],
    pub(super) target: &'a Locator,
    pub(super) files: Option<FileList>,
    /// The source, and the further ones.
    pub(super) mirrors: Option<Mirrors>,
    /// Other people's servers at either end, by their locators, once they were opened.
    pub(super) servers: Mutex<Vec<(String, Arc<dyn Store>)>>,
}

impl Job<'_> {
    /// Whether it moves nothing but zeros into nothing: people test a path that way.
    pub fn is_test(&self) -> bool {
        test::is_memory(self.target) && self.sources.iter().all(test::is_memory)
    }

    /// Whether somebody else's server is at either end.
    pub(super) fn is_abroad(&self) -> bool {
        self.mirrors.is_some() || is_foreign(self.target) || self.sources.iter().any(is_foreign)
    }

    pub(super) fn is_piped(&self) -> bool {
        self.sources.contains(&Locator::Pipe) || *self.target == Locator::Pipe
    }

    /// How to treat what the job meets.
    pub fn options(&self) -> Options {
        Options {
            recursive: self.cp.recursive,
            copy_links: self.cp.copy_links,
            into: self.into,
            sync: spec::Sync::from(self.cp.sync),
            no_overwrite: self.cp.no_overwrite,
            durable: self.cp.durable,
            checksums: self.cp.checksums().to_vec(),
            delete: spec::Delete::said(self.cp.delete, self.cp.max_delete, self.cp.force),
            dry_run: self.cp.dry_run,
            owner: self.cp.owner,
            xattrs: self.cp.xattrs,
            wait_space: self.cp.wait_space,
            filters: self.cp.filters.clone(),
        }
    }

    /// The limit and the streams to begin with.
    pub fn steer(&self) -> Steer {
        let streams = match self.cp.streams {
            _ if self.is_piped() => 1,
            Some(streams) => streams,
            None if self.is_abroad() => ABROAD_STREAMS,
            None => 0,
        };
        Steer { limit_bit_s: self.cp.limit.map_or(0, |rate| rate.0), streams, paused: false }
    }

    /// Sources as typed.
    pub fn source_names(&self) -> Vec<String> {
        self.sources.iter().map(ToString::to_string).collect()
    }

    /// Sources, as read.
    pub fn sources(&self) -> &[Locator] {
        self.sources
    }

    /// The target, as read.
    pub fn target(&self) -> &Locator {
        self.target
    }

    /// Whether nothing is asked for that only this program can do.
    pub fn is_simple(&self) -> bool {
        let cp = self.cp;
        let chosen = cp.delete || cp.dry_run || cp.durable || cp.owner || cp.xattrs || !cp.filters.is_empty();
        let watched = cp.limit.is_some() || cp.streams.is_some() || cp.series.is_some() || cp.congestion.is_some();
        let digests = *cp.checksums() != Options::default().checksums && *cp.checksums() != [model::Algorithm::Crc32c];
        !chosen && !watched && !digests && self.files.is_none() && spec::Sync::from(cp.sync) != spec::Sync::Digest
    }

    /// Whether the user has ended the command.
    pub fn cancel(&self) -> &Arc<AtomicBool> {
        &self.cancel
    }

    /// The target as typed.
    pub fn target_name(&self) -> String {
        self.target.to_string()
    }
}

/// Whether this process reaches it by itself: here, or on somebody else's server.
pub(super) fn is_near(locator: &Locator) -> bool {
    matches!(locator, Locator::Local(_) | Locator::Zero(_) | Locator::Pipe | Locator::Null) || is_foreign(locator)
}

pub(super) fn is_foreign(locator: &Locator) -> bool {
    matches!(locator, Locator::Foreign { .. })
}
