//! The scratch places of a run: taken at its beginning, renewed while it runs, removed at its end. If the controller dies, the nodes remove
//! them by themselves. A node that was restarted has forgotten its place: another one is taken, and its files are made again.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::id::Uuid;
use model::v1::node::{ScratchChange, ScratchFiles, ScratchOrder, ScratchPlace};
use parking_lot::Mutex;

use web::{Dialer, HttpUrl};

use super::{RunError, RunInputs, RunSite};
use crate::file::Exercise;

/// The lifetime of a place without renewal, seconds.
const LIFETIME_S: u32 = 60;
/// How often places are renewed.
const RENEWAL: Duration = Duration::from_secs(3);
/// The status of a node that does not know a place.
const UNKNOWN: u16 = 404;
/// The answers of a node that lends no places, or not to this key.
const NOT_AGREED: [u16; 3] = [401, 403, UNKNOWN];
/// What a place may hold beside the files that are sent from there, as a factor: unfinished files of an attempt before.
const ROOM: f64 = 1.2;
/// What a place holds of the files that a flow brings, as a factor: each new file lies beside the one that it replaces until it is complete.
const ROOM_TO_REPLACE: f64 = 2.2;
/// The least quota, bytes.
const QUOTA_MIN: u64 = 16 << 20;

/// The places of a run.
pub(crate) struct Leases {
    by_site: BTreeMap<String, Lease>,
}

struct Lease {
    id: Uuid,
    quota_bytes: u64,
    dialer: Dialer,
    origin: HttpUrl,
    /// The API for whoever ordered the place.
    api: nodeapi::Api,
    access: Mutex<PlaceAccess>,
    /// The files of the place, and how many of these orders the node has.
    files: Mutex<(Vec<ScratchFiles>, usize)>,
    software: String,
    clock_ahead_s: Option<f64>,
    /// Why it is not renewed now, if so.
    lost: Mutex<Option<String>>,
}

/// How to use a place.
struct PlaceAccess {
    /// The path of the place: `/exercise/ID`.
    place: String,
    key: String,
    /// The API for the holder of the key.
    api: nodeapi::Api,
}

/// The renewal of all places, each in a thread of its own: a site that does not answer delays no other.
pub(crate) struct Renewal<'scope> {
    threads: Vec<(mpsc::Sender<()>, ScopedJoinHandle<'scope, ()>)>,
}

impl Renewal<'_> {
    /// Ends it, and waits for requests under way: a place that is removed must not be taken again.
    pub fn end(self) {
        let (senders, threads): (Vec<_>, Vec<_>) = self.threads.into_iter().unzip();
        drop(senders);
        // A panic there was reported by its thread.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Leases {
    /// Takes a place at each site. If one is refused, those that were taken are removed.
    ///
    /// # Errors
    /// A node refuses.
    pub fn take(inputs: &RunInputs<'_>) -> Result<Leases, RunError> {
        let mut leases = Leases { by_site: BTreeMap::new() };
        let used = inputs.exercise.used_sites();
        for site in inputs.sites.iter().filter(|site| used.contains(&site.name.as_str())) {
            match Lease::take(site, quota_bytes(inputs.exercise, &site.name)) {
                Ok(lease) => drop(leases.by_site.insert(site.name.clone(), lease)),
                Err(error) => {
                    leases.release();
                    return Err(refusal(&site.name, &error));
                }
            }
        }
        Ok(leases)
    }

    /// Renews all places until that is ended.
    pub fn renew_in<'scope, 'env>(&'scope self, scope: &'scope Scope<'scope, 'env>) -> Renewal<'scope> {
        let renew = |lease: &'scope Lease| {
            let (sender, receiver) = mpsc::channel();
            let thread = scope.spawn(move || {
                while receiver.recv_timeout(RENEWAL) == Err(RecvTimeoutError::Timeout) {
                    lease.renew();
                }
            });
            (sender, thread)
        };
        Renewal { threads: self.by_site.values().map(renew).collect() }
    }

    /// Removes all places; with that their keys end, and the transfers that were ordered with these.
    pub fn release(&self) {
        std::thread::scope(|scope| {
            for (site, lease) in &self.by_site {
                scope.spawn(move || {
                    if let Err(error) = lease.api.remove_scratch(lease.id) {
                        tracing::warn!(site, %error, "the scratch place stays until its lifetime ends");
                    }
                });
            }
        });
    }

    /// The path of a site's place.
    pub fn place(&self, site: &str) -> String {
        self.by_site.get(site).map_or_else(String::new, |lease| lease.access.lock().place.clone())
    }

    /// The id of a site's place.
    pub fn id(&self, site: &str) -> Option<Uuid> {
        self.by_site.get(site).map(|lease| lease.id)
    }

    /// The key of a site's place, as it is now.
    pub fn key(&self, site: &str) -> String {
        self.by_site.get(site).map_or_else(String::new, |lease| lease.access.lock().key.clone())
    }

    /// The API of a site's node for the holder of the place's key, as it is now.
    pub fn place_api(&self, site: &str) -> Option<nodeapi::Api> {
        self.by_site.get(site).map(|lease| lease.access.lock().api.clone())
    }

    /// Has files made in a site's place.
    ///
    /// # Errors
    /// There is no place, or the node refuses.
    pub fn make_files(&self, site: &str, files: ScratchFiles) -> Result<(), String> {
        let lease = self.by_site.get(site).ok_or_else(|| "it has no scratch place".to_owned())?;
        lease.files.lock().0.push(files);
        lease.order_files().map_err(|error| error.to_string())
    }

    /// The API of a site's node for whoever ordered the place.
    pub fn api(&self, site: &str) -> Option<&nodeapi::Api> {
        self.by_site.get(site).map(|lease| &lease.api)
    }

    /// The software of a site's node.
    pub fn software(&self, site: &str) -> String {
        self.by_site.get(site).map_or_else(String::new, |lease| lease.software.clone())
    }

    /// How far a site's clock is ahead of ours, seconds.
    pub fn clock_ahead_s(&self, site: &str) -> Option<f64> {
        self.by_site.get(site).and_then(|lease| lease.clock_ahead_s)
    }

    /// Places that were lost at the end of the run, and why.
    pub fn lost(&self) -> Vec<String> {
        let lost = self.by_site.iter().filter_map(|(site, lease)| Some((site, lease.lost.lock().clone()?)));
        lost.map(|(site, why)| format!("the scratch place of {site} was lost before the end: {why}")).collect()
    }
}

/// Why a site's node gives no place.
fn refusal(site: &str, error: &nodeapi::Error) -> RunError {
    let (site, why) = (site.to_owned(), error.to_string());
    match error {
        nodeapi::Error::Refused { problem, .. } if NOT_AGREED.contains(&problem.status) => {
            RunError::NotAgreed { site, why }
        }
        _ => RunError::Files { site, why },
    }
}

impl Lease {
    fn take(site: &RunSite, quota_bytes: u64) -> Result<Lease, nodeapi::Error> {
        let api = site.api(&site.key);
        let id = Uuid::now_v7();
        let software = api.capabilities()?.software;
        let (asked, sent) = (SystemTime::now(), Instant::now());
        let (place, _) = api.create_scratch(&ScratchOrder { id, lifetime_s: LIFETIME_S, quota_bytes })?;
        // The node counts the lifetime from some moment during the request.
        let middle = asked + sent.elapsed() / 2;
        let clock_ahead_s = ahead_s(&place.expires, middle);
        let key = place.key.unwrap_or_default();
        let access = PlaceAccess { place: place.place, api: site.api(&key), key };
        Ok(Lease {
            id,
            quota_bytes,
            dialer: site.dialer.clone(),
            origin: site.origin.clone(),
            api,
            access: Mutex::new(access),
            files: Mutex::default(),
            software,
            clock_ahead_s,
            lost: Mutex::default(),
        })
    }

    /// Renews the place, or takes it again if the node has forgotten it.
    fn renew(&self) {
        let renewed = match self.api.renew_scratch(self.id, ScratchChange { lifetime_s: LIFETIME_S }) {
            Err(nodeapi::Error::Refused { problem, .. }) if problem.status == UNKNOWN => self.take_again(),
            renewed => renewed.map(drop),
        };
        let renewed = renewed.and_then(|()| self.order_files());
        *self.lost.lock() = renewed.err().map(|error| error.to_string());
    }

    fn take_again(&self) -> Result<(), nodeapi::Error> {
        let order = ScratchOrder { id: self.id, lifetime_s: LIFETIME_S, quota_bytes: self.quota_bytes };
        let (place, _): (ScratchPlace, bool) = self.api.create_scratch(&order)?;
        self.files.lock().1 = 0;
        let Some(key) = place.key else {
            // The answer with the key was lost: the next renewal takes a new place.
            return self.api.remove_scratch(self.id).map(drop);
        };
        let api = nodeapi::Api::new(self.dialer.clone(), self.origin.clone(), Some(&format!("Bearer {key}")));
        *self.access.lock() = PlaceAccess { place: place.place, key, api };
        Ok(())
    }

    /// Orders the files that the node does not have yet.
    fn order_files(&self) -> Result<(), nodeapi::Error> {
        let mut files = self.files.lock();
        let (all, ordered) = &mut *files;
        while let Some(next) = all.get(*ordered) {
            self.api.make_scratch_files(self.id, next)?;
            *ordered += 1;
        }
        Ok(())
    }
}

/// How far a clock is ahead that says that a lifetime which began at a moment of ours ends at this time; none if the time cannot be read.
fn ahead_s(expires: &str, began: SystemTime) -> Option<f64> {
    let end_s = web::date::parse_rfc3339(expires)?.seconds as f64;
    let began_s = began.duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    Some(end_s - f64::from(LIFETIME_S) - began_s)
}

/// The bytes that a place must hold: the files of each class that is sent from there, and what each flow brings there.
fn quota_bytes(exercise: &Exercise, site: &str) -> u64 {
    let flows = exercise.flows().map(|(_, flow)| (flow, vec![flow.class.clone()]));
    let searched = exercise.search.iter().map(|search| (&search.flow, search.file_classes()));
    let mut sent = BTreeMap::new();
    let mut received = 0;
    for (flow, classes) in flows.chain(searched) {
        for class in classes {
            let (_, bytes) = class.volume(exercise.scale);
            if flow.to == site && class.medium.writes() {
                received += bytes;
            }
            if flow.from == site && class.medium.reads() {
                sent.insert(class.name, bytes);
            }
        }
    }
    let bytes = sent.values().sum::<u64>() as f64 * ROOM + received as f64 * ROOM_TO_REPLACE;
    (bytes as u64).max(QUOTA_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[exercise]\ntitle = \"t\"\nscale = 0.5\n[site.a]\nnode = \"https://a:1\"\n[site.b]\nnode = \"https://b:1\"\n\
         [class.x]\nfiles = 4\nsize = \"1GB\"\n[class.m]\nsize = \"1TB\"\nmedium = \"memory\"\n[[phase]]\nname = \"p\"\n\
         [[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"x\"\ncount = 3\n[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"m\"\n";

    #[test]
    fn a_place_holds_each_class_once_and_what_each_flow_brings() {
        let exercise = Exercise::read(TEXT).unwrap();
        assert_eq!(quota_bytes(&exercise, "a"), 2_400_000_000);
        assert_eq!(quota_bytes(&exercise, "b"), 13_200_000_000);
        assert_eq!(quota_bytes(&exercise, "elsewhere"), QUOTA_MIN);
    }

    #[test]
    fn a_clock_that_is_off_is_seen_in_the_end_of_a_lifetime() {
        let began = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert_eq!(ahead_s("2001-09-09T01:47:40Z", began), Some(0.0));
        assert_eq!(ahead_s("2001-09-09T01:48:10Z", began), Some(30.0));
        assert_eq!(ahead_s("soon", began), None);
    }
}
