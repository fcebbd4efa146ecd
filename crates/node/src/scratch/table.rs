//! The table of scratch places: who ordered which, until when, and what is in them. Pure: the time is an argument; keys, directories and
//! threads are elsewhere.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use auth::{Access, Grant, Grants};
use model::id::Uuid;
use model::v1::node::ScratchOrder;

use super::ScratchRefused;
use super::file_queue::{FileOrder, FileQueue};
use super::no_room::NoRoom;
use super::usage::{PlaceUsage, memory_of};

/// Scratch places at once. An exercise has one at each node; so many exercises at once would measure each other.
pub(crate) const PLACES_MAX: usize = 64;
/// The longest lifetime, seconds: what is left of a client that is gone ends within a minute.
pub(crate) const LIFETIME_S_MAX: u32 = 60;
/// Memory that the paths of the files of all places take, bytes: those of half a million files with paths of 70 bytes.
pub(super) const PATH_BYTES_MAX: usize = 64 << 20;

/// Who ordered a place.
#[derive(Clone, Debug)]
pub(crate) struct Orderer {
    /// The holder of the credential.
    pub holder: String,
    /// The principal's name.
    pub who: String,
    /// The client's address.
    pub peer: SocketAddr,
}

/// A place that has not ended.
#[derive(Debug)]
pub(super) struct LivePlace {
    pub orderer: Orderer,
    /// The grant of the key of the place.
    pub grant: Grant,
    pub created: Instant,
    pub expires: Instant,
    pub quota_bytes: u64,
    pub usage: PlaceUsage,
    pub files: FileQueue,
    /// Tells the files that are being written that the place has ended.
    pub has_ended: Arc<AtomicBool>,
}

/// Why a place has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndCause {
    /// Its lifetime is over.
    Expired,
    /// Who ordered it has removed it.
    Removed,
    /// The node stops.
    Stopped,
    /// An earlier process of the node left its directory behind.
    LeftBehind,
}

impl EndCause {
    /// The word for the logs.
    pub fn word(self) -> &'static str {
        match self {
            EndCause::Expired => "expired",
            EndCause::Removed => "removed",
            EndCause::Stopped => "stopped",
            EndCause::LeftBehind => "left behind",
        }
    }
}

/// A place that has ended, and whose directory is still to be removed.
#[derive(Debug)]
pub(super) struct EndedPlace {
    pub id: Uuid,
    pub cause: EndCause,
    /// The place as it was; none for a directory that was left behind.
    pub place: Option<LivePlace>,
}

/// All scratch places of a node.
#[derive(Debug)]
pub(super) struct ScratchTable {
    /// The quota of all places together.
    quota_bytes: u64,
    living: BTreeMap<Uuid, LivePlace>,
    /// Places that have ended and that the thread for that has not taken yet.
    ended: Vec<EndedPlace>,
    /// The quota of each place whose directory has not been removed yet.
    ending: BTreeMap<Uuid, u64>,
    /// The node stops: there are no new places.
    is_closed: bool,
}

fn lifetime(seconds: u32) -> Result<Duration, ScratchRefused> {
    if !(1..=LIFETIME_S_MAX).contains(&seconds) {
        return Err(ScratchRefused::Lifetime(seconds));
    }
    Ok(Duration::from_secs(seconds.into()))
}

impl LivePlace {
    /// Bytes that are used or promised to files that are to be made.
    fn taken_bytes(&self) -> u64 {
        self.usage.bytes() + self.files.waiting_bytes()
    }
}

impl ScratchTable {
    /// A table with this quota. `left_behind` are places of an earlier process, whose directories are still there.
    pub fn new(quota_bytes: u64, left_behind: &[Uuid]) -> ScratchTable {
        let ended = |id: &Uuid| EndedPlace { id: *id, cause: EndCause::LeftBehind, place: None };
        ScratchTable {
            quota_bytes,
            living: BTreeMap::new(),
            ended: left_behind.iter().map(ended).collect(),
            ending: left_behind.iter().map(|id| (*id, 0)).collect(),
            is_closed: false,
        }
    }

    /// Adds a place with this grant, or renews the same place. Returns whether it is new.
    ///
    /// # Errors
    /// The order is invalid, its id is taken, or there is no room.
    pub fn order(
        &mut self,
        order: &ScratchOrder,
        orderer: Orderer,
        grant: Grant,
        now: Instant,
    ) -> Result<bool, ScratchRefused> {
        let expires = now + lifetime(order.lifetime_s)?;
        if self.is_closed {
            return Err(ScratchRefused::Stopping);
        }
        self.end_expired(now);
        if self.ending.contains_key(&order.id) {
            return Err(ScratchRefused::Ending(order.id));
        }
        if let Some(known) = self.living.get_mut(&order.id) {
            if known.orderer.holder != orderer.holder || known.quota_bytes != order.quota_bytes {
                return Err(ScratchRefused::IdTaken(order.id));
            }
            known.expires = expires;
            return Ok(false);
        }
        self.check_room(order.quota_bytes)?;
        let place = LivePlace {
            orderer,
            grant,
            created: now,
            expires,
            quota_bytes: order.quota_bytes,
            usage: PlaceUsage::default(),
            files: FileQueue::default(),
            has_ended: Arc::default(),
        };
        self.living.insert(order.id, place);
        Ok(true)
    }

    fn check_room(&self, quota_bytes: u64) -> Result<(), ScratchRefused> {
        if self.living.len() + self.ending.len() >= PLACES_MAX {
            return Err(ScratchRefused::Full);
        }
        let quotas = self.living.values().map(|place| place.quota_bytes).chain(self.ending.values().copied());
        let left = self.quota_bytes.saturating_sub(quotas.sum::<u64>());
        if quota_bytes > left {
            return Err(ScratchRefused::NodeQuota { asked: quota_bytes, left, all: self.quota_bytes });
        }
        Ok(())
    }

    /// A place that has not ended.
    pub fn living(&self, id: &Uuid, now: Instant) -> Option<&LivePlace> {
        self.living.get(id).filter(|place| place.expires > now)
    }

    /// A place that has not been ended, to change.
    pub fn living_mut(&mut self, id: &Uuid) -> Option<&mut LivePlace> {
        self.living.get_mut(id)
    }

    /// A place of a holder.
    ///
    /// # Errors
    /// The holder has no such place.
    pub fn of(&mut self, holder: &str, id: &Uuid, now: Instant) -> Result<&mut LivePlace, ScratchRefused> {
        let place = self.living.get_mut(id).filter(|place| place.expires > now && place.orderer.holder == holder);
        place.ok_or(ScratchRefused::Unknown(*id))
    }

    /// Renews a place of a holder.
    ///
    /// # Errors
    /// The holder has no such place, or the lifetime is not allowed.
    pub fn renew(&mut self, holder: &str, id: &Uuid, lifetime_s: u32, now: Instant) -> Result<(), ScratchRefused> {
        let expires = now + lifetime(lifetime_s)?;
        self.of(holder, id, now)?.expires = expires;
        Ok(())
    }

    /// Orders files in a place of a holder. Returns whether a thread must be started that makes them.
    ///
    /// # Errors
    /// The holder has no such place, or the files do not fit.
    pub fn order_files(
        &mut self,
        holder: &str,
        id: &Uuid,
        order: FileOrder,
        now: Instant,
    ) -> Result<bool, ScratchRefused> {
        let path_bytes = self.path_bytes();
        let place = self.of(holder, id, now)?;
        if place.files.repeats(&order) {
            return Ok(false);
        }
        let left = place.quota_bytes.saturating_sub(place.taken_bytes());
        if order.bytes > left {
            return Err(ScratchRefused::PlaceQuota { asked: order.bytes, left, quota: place.quota_bytes });
        }
        if path_bytes + order.path_bytes > PATH_BYTES_MAX {
            return Err(ScratchRefused::Paths);
        }
        Ok(place.files.add(order))
    }

    /// The memory that the paths of all files take, bytes.
    fn path_bytes(&self) -> usize {
        self.living.values().map(|place| place.usage.path_bytes() + place.files.path_bytes()).sum()
    }

    /// The grant of a key.
    pub fn grant_of_key(&self, id: &[u8; 8], secret: &[u8; 32], now: Instant) -> Option<Grant> {
        let grant = self.grant(&auth::hex(id), now)?;
        // The grant has no time of its own: the table knows when it ends.
        match (Grants { list: vec![grant] }).check(id, secret, 0) {
            Ok(Access::Granted(grant)) => Some(grant),
            _ => None,
        }
    }

    /// The grant with this id.
    pub fn grant(&self, id: &str, now: Instant) -> Option<Grant> {
        let mut living = self.living.values().filter(|place| place.expires > now);
        living.find(|place| place.grant.id == id).map(|place| place.grant.clone())
    }

    /// Checks that a further file may have this path, as far as memory goes.
    ///
    /// # Errors
    /// The place has ended, or there is no memory for the path.
    pub fn check_path(&self, id: &Uuid, path: &model::RelPath, now: Instant) -> Result<(), NoRoom> {
        self.living(id, now).ok_or(NoRoom::NoPlace)?;
        if self.path_bytes() + memory_of(path) > PATH_BYTES_MAX {
            return Err(NoRoom::Paths);
        }
        Ok(())
    }

    /// A file of a place that is being written takes more room.
    ///
    /// # Errors
    /// The place has ended, or its quota is used up.
    pub fn grow(&mut self, id: &Uuid, bytes: u64, now: Instant) -> Result<(), NoRoom> {
        let place = self.living.get_mut(id).filter(|place| place.expires > now).ok_or(NoRoom::NoPlace)?;
        let taken = place.taken_bytes();
        if bytes > place.quota_bytes.saturating_sub(taken) {
            return Err(NoRoom::Quota { used_bytes: taken, quota_bytes: place.quota_bytes });
        }
        place.usage.grow(bytes);
        Ok(())
    }

    /// Ends a place of a holder.
    ///
    /// # Errors
    /// The holder has no such place.
    pub fn remove(&mut self, holder: &str, id: &Uuid, now: Instant) -> Result<(), ScratchRefused> {
        self.of(holder, id, now)?;
        self.end(id, EndCause::Removed);
        Ok(())
    }

    /// Ends all places, because the node stops.
    pub fn close(&mut self) {
        self.is_closed = true;
        let all: Vec<Uuid> = self.living.keys().copied().collect();
        all.iter().for_each(|id| self.end(id, EndCause::Stopped));
    }

    fn end_expired(&mut self, now: Instant) {
        let expired = self.living.iter().filter(|(_, place)| place.expires <= now);
        let expired: Vec<Uuid> = expired.map(|(id, _)| *id).collect();
        expired.iter().for_each(|id| self.end(id, EndCause::Expired));
    }

    fn end(&mut self, id: &Uuid, cause: EndCause) {
        let Some(mut place) = self.living.remove(id) else { return };
        place.has_ended.store(true, Ordering::Release);
        place.files.fail("the place has ended".into());
        self.ending.insert(*id, place.quota_bytes);
        self.ended.push(EndedPlace { id: *id, cause, place: Some(place) });
    }

    /// The places that have ended since the last call, or whose lifetime is over now.
    pub fn take_ended(&mut self, now: Instant) -> Vec<EndedPlace> {
        self.end_expired(now);
        std::mem::take(&mut self.ended)
    }

    /// The directory of a place that has ended is gone.
    pub fn gone(&mut self, id: &Uuid) {
        self.ending.remove(id);
    }

    /// Takes a new place back whose directory could not be made.
    pub fn take_back(&mut self, id: &Uuid) {
        self.living.remove(id);
    }
}

#[cfg(test)]
mod tests;
