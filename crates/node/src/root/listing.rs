//! Listings of directories, sent while they are read.

use auth::Action;
use model::checksum::Digest;
use model::name::Name;
use model::{Algorithm, Kind};
use xroot::codes::list_options;
use xroot::entry::{EntryFacts, ListingWriter};
use xroot::{ErrorCode, RootAnswer, RootPath, StreamId};

use super::checksum::algorithm;
use super::connection::RootConnection;
use super::failure::{RootOutcome, refuse};
use super::resolved::{Resolved, export_and_path, facts};

/// Bytes of a listing that are sent in one piece.
const PART_BYTES: usize = 32 << 10;

impl RootConnection {
    /// Lists a directory, or the exports that the principal may see.
    pub(super) fn list(&mut self, stream: StreamId, place: &RootPath, options: u8) -> RootOutcome<Option<RootAnswer>> {
        let checksum = (options & list_options::CHECKSUM != 0).then(|| algorithm(place)).transpose()?;
        let has_facts = checksum.is_some() || options & list_options::STAT != 0;
        let mut listing = ListingWriter::new(has_facts);
        if export_and_path(&place.path)?.is_none() {
            let principal = self.principal(place)?;
            let flags = xroot::entry::entry_flags::DIRECTORY | xroot::entry::entry_flags::READABLE;
            let dir = EntryFacts { flags, mode: Some(0o755), ..EntryFacts::default() };
            for export in self.service.services.access.visible(&principal.access) {
                let Ok(name) = Name::new(export.as_bytes()) else { continue };
                listing.add(&name, has_facts.then_some(&dir), checksum.map(|_| None));
            }
            return Ok(Some(RootAnswer::Ok(listing.finish())));
        }
        let resolved = self.resolve(Action::List, place, "ls")?;
        if !resolved.at.store.is_dir(&resolved.at.path) {
            resolved.at.store.stat(&resolved.at.path)?;
            return Err(refuse(ErrorCode::NotFile, format!("/{} is no directory", place.path)));
        }
        for entry in resolved.at.store.list(&resolved.at.path)? {
            let (name, stat) = entry?;
            let known = match (has_facts, stat) {
                (false, _) => None,
                (true, Ok(stat)) => Some(facts(&stat, false)),
                // An entry that is gone, or that this node may not examine.
                (true, Err(_)) => continue,
            };
            let digest = checksum.map(|algorithm| self.known_digest(&resolved, &name, algorithm));
            listing.add(&name, known.as_ref(), digest.as_ref().map(Option::as_ref));
            if listing.len() >= PART_BYTES {
                let part = listing.take_part();
                self.send(stream, &RootAnswer::Partial(part))?;
            }
        }
        Ok(Some(RootAnswer::Ok(listing.finish())))
    }

    /// The digest of an entry, if it is known: a listing reads no files.
    fn known_digest(&self, resolved: &Resolved, name: &Name, algorithm: Algorithm) -> Option<Digest> {
        let path = resolved.at.path.join(name);
        let source = resolved.at.store.open(&path).ok()?;
        if source.stat().ok()?.meta.kind != Kind::File {
            return None;
        }
        let known = self.service.services.digests.known(&*source).ok()?;
        known.into_iter().find(|digest| digest.algorithm() == algorithm)
    }
}
