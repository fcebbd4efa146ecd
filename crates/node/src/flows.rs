//! Top talkers: which addresses and users move most, over the last minute, the last hour, and since the node started.
//!
//! Time is cut into buckets of 5 s for the minute and of 5 min for the hour; thirteen of each are kept, so that twelve whole
//! buckets always exist. A bucket has three tables of the heaviest, [`ROWS`] rows each ([`sketch`]), and exact sums of the bytes
//! over IPv4 and IPv6. In all there are 27 buckets of 3 tables: 81,000 rows. A row takes about 100 bytes; the name of a user, at
//! most 512 bytes, is shared by all tables. So the memory is about 10 MB where that many addresses move bytes within an hour, and
//! tens of kB on most nodes.
//!
//! A new key in a full table costs a scan of all its rows, some 3 µs; that is once for a request, not for a block.
//!
//! What this module does not know: where bytes are counted, and who may read the numbers.

mod sketch;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::v1::flows as v1;
use model::v1::flows::Volume;
use parking_lot::{Mutex, MutexGuard};

use self::sketch::{Row, Sketch, merged};

/// Rows of a table: an address or user that moved more than a thousandth of all bytes has a row.
const ROWS: usize = 1000;
/// Buckets of a ring.
const BUCKETS: u64 = 13;
/// Name and width of a bucket of the two rings.
const MINUTE: (&str, Duration) = ("minute", Duration::from_secs(5));
const HOUR: (&str, Duration) = ("hour", Duration::from_secs(300));

/// On whose behalf bytes move.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct User {
    /// The stable id of the credential.
    pub holder: String,
    /// The name, as the audit log has it.
    pub who: String,
}

#[derive(Debug)]
struct Bucket {
    ipv4: Volume,
    ipv6: Volume,
    sources: Sketch<IpAddr>,
    targets: Sketch<IpAddr>,
    users: Sketch<Arc<User>>,
}

impl Bucket {
    fn new() -> Bucket {
        let (sources, targets, users) = (Sketch::new(ROWS), Sketch::new(ROWS), Sketch::new(ROWS));
        Bucket { ipv4: Volume::default(), ipv6: Volume::default(), sources, targets, users }
    }

    fn add(&mut self, address: IpAddr, user: &Arc<User>, volume: &Volume) {
        if address.is_ipv4() { &mut self.ipv4 } else { &mut self.ipv6 }.add(volume);
        let came = Volume { bytes_in: volume.bytes_in, files_in: volume.files_in, ..Volume::default() };
        let went = Volume { bytes_out: volume.bytes_out, files_out: volume.files_out, ..Volume::default() };
        if came != Volume::default() {
            self.sources.add(&address, &came);
        }
        if went != Volume::default() {
            self.targets.add(&address, &went);
        }
        self.users.add(user, volume);
    }
}

/// Buckets of one length, by number since the beginning.
#[derive(Debug)]
struct Ring {
    name: &'static str,
    width: Duration,
    buckets: VecDeque<(u64, Bucket)>,
}

impl Ring {
    fn new((name, width): (&'static str, Duration)) -> Ring {
        Ring { name, width, buckets: VecDeque::new() }
    }

    /// Drops buckets that are too old; returns the number of the bucket that is filled now.
    fn turn(&mut self, at: Duration) -> u64 {
        let number = at.as_millis() as u64 / self.width.as_millis() as u64;
        while self.buckets.front().is_some_and(|(first, _)| first + BUCKETS <= number) {
            self.buckets.pop_front();
        }
        number
    }

    fn bucket(&mut self, at: Duration) -> Option<&mut Bucket> {
        let number = self.turn(at);
        if self.buckets.back().is_none_or(|(last, _)| *last < number) {
            self.buckets.push_back((number, Bucket::new()));
        }
        self.buckets.back_mut().map(|(_, bucket)| bucket)
    }

    fn told(&mut self, at: Duration, query: &FlowQuery<'_>) -> v1::Window {
        let number = self.turn(at);
        let since = self.width * (number + 1).saturating_sub(BUCKETS) as u32;
        let buckets: Vec<&Bucket> = self.buckets.iter().map(|(_, bucket)| bucket).collect();
        told(self.name, at.saturating_sub(since), &buckets, query)
    }
}

#[derive(Debug)]
struct Windows {
    minute: Ring,
    hour: Ring,
    start: Bucket,
}

/// The top talkers of a node.
#[derive(Debug)]
pub(crate) struct Flows {
    began: Instant,
    windows: Mutex<Windows>,
}

/// Which rows of the tables are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowQuery<'a> {
    /// The only holder whose row is reported; all rows without one.
    pub only: Option<&'a str>,
    /// Rows of each table.
    pub top: usize,
}

impl Default for Flows {
    fn default() -> Flows {
        let windows = Windows { minute: Ring::new(MINUTE), hour: Ring::new(HOUR), start: Bucket::new() };
        Flows { began: Instant::now(), windows: Mutex::new(windows) }
    }
}

impl Flows {
    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock()
    }

    /// Adds bytes that moved from or to an address on behalf of a user.
    pub fn add(&self, address: IpAddr, user: &Arc<User>, volume: &Volume) {
        self.add_at(self.began.elapsed(), address, user, volume);
    }

    fn add_at(&self, at: Duration, address: IpAddr, user: &Arc<User>, volume: &Volume) {
        let (mut windows, address) = (self.windows(), address.to_canonical());
        let Windows { minute, hour, start } = &mut *windows;
        for bucket in [minute.bucket(at), hour.bucket(at), Some(start)].into_iter().flatten() {
            bucket.add(address, user, volume);
        }
    }

    /// The report of all windows.
    pub fn told(&self, query: &FlowQuery<'_>) -> v1::Flows {
        self.told_at(self.began.elapsed(), query)
    }

    fn told_at(&self, at: Duration, query: &FlowQuery<'_>) -> v1::Flows {
        let mut windows = self.windows();
        let (minute, hour) = (windows.minute.told(at, query), windows.hour.told(at, query));
        let start = told("start", at, &[&windows.start], query);
        v1::Flows { v: 1, whole_node: query.only.is_none(), windows: vec![minute, hour, start] }
    }
}

fn told(name: &str, span: Duration, buckets: &[&Bucket], query: &FlowQuery<'_>) -> v1::Window {
    let seconds = span.as_secs_f64();
    let users = merged(buckets.iter().map(|bucket| &bucket.users)).into_iter();
    let users = users.filter(|(user, _)| query.only.is_none_or(|holder| user.holder == holder));
    let user = |(user, row): (Arc<User>, Row)| v1::User {
        user: user.who.clone(),
        volume: row.volume,
        rate_bit_s: rate(row.volume.bytes(), seconds),
        missed_bytes_max: row.missed,
    };
    let mut users: Vec<v1::User> = users.map(user).collect();
    users.sort_by(|a, b| (b.volume.bytes(), &a.user).cmp(&(a.volume.bytes(), &b.user)));
    users.truncate(query.top);
    let window = v1::Window { window: name.to_owned(), seconds, users, ..v1::Window::default() };
    if query.only.is_some() {
        return window;
    }
    let sum = |of: fn(&Bucket) -> Volume| {
        let mut all = Volume::default();
        buckets.iter().for_each(|bucket| all.add(&of(bucket)));
        all
    };
    let (ipv4, ipv6) = (sum(|bucket| bucket.ipv4), sum(|bucket| bucket.ipv6));
    let mut all = ipv4;
    all.add(&ipv6);
    let sources = hosts(buckets.iter().map(|bucket| &bucket.sources), seconds, query.top);
    let targets = hosts(buckets.iter().map(|bucket| &bucket.targets), seconds, query.top);
    v1::Window { all: Some(all), ipv4: Some(ipv4), ipv6: Some(ipv6), sources, targets, ..window }
}

fn hosts<'a>(tables: impl Iterator<Item = &'a Sketch<IpAddr>>, seconds: f64, top: usize) -> Vec<v1::Host> {
    let mut rows: Vec<(IpAddr, Row)> = merged(tables).into_iter().collect();
    rows.sort_by(|a, b| (b.1.volume.bytes(), a.0).cmp(&(a.1.volume.bytes(), b.0)));
    let host = |(address, row): (IpAddr, Row)| v1::Host {
        address: address.to_string(),
        bytes: row.volume.bytes(),
        files: row.volume.files_in + row.volume.files_out,
        rate_bit_s: rate(row.volume.bytes(), seconds),
        missed_bytes_max: row.missed,
    };
    rows.into_iter().take(top).map(host).collect()
}

fn rate(bytes: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (bytes as f64 * 8.0 / seconds) as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: FlowQuery<'_> = FlowQuery { only: None, top: 20 };

    fn user(name: &str) -> Arc<User> {
        Arc::new(User { holder: name.into(), who: format!("{name} (of a test)") })
    }

    fn volume(bytes_in: u64, bytes_out: u64) -> Volume {
        Volume { bytes_in, bytes_out, files_in: u64::from(bytes_in > 0), requests: 1, ..Volume::default() }
    }

    fn bytes(told: &v1::Flows) -> Vec<u64> {
        told.windows.iter().map(|window| window.all.unwrap().bytes()).collect()
    }

    #[test]
    fn what_is_old_leaves_the_minute_then_the_hour_and_never_the_start() {
        let flows = Flows::default();
        let (second, at) = (Duration::from_secs(1), "192.0.2.1".parse().unwrap());
        flows.add_at(second, at, &user("a"), &volume(100, 0));
        flows.add_at(second * 58, at, &user("a"), &volume(10, 0));
        assert_eq!(bytes(&flows.told_at(second * 59, &ALL)), [110, 110, 110]);
        assert_eq!(bytes(&flows.told_at(second * 65, &ALL)), [10, 110, 110]);
        assert_eq!(bytes(&flows.told_at(second * 3599, &ALL)), [0, 110, 110]);
        assert_eq!(bytes(&flows.told_at(second * 3900, &ALL)), [0, 0, 110]);
        // A minute is always whole, and its rate is that of the time which it really has.
        let told = flows.told_at(second * 119, &ALL);
        assert!((60.0..65.1).contains(&told.windows[0].seconds), "{}", told.windows[0].seconds);
        let told = flows.told_at(second * 10, &ALL);
        assert_eq!((told.windows[0].seconds, told.windows[2].users[0].rate_bit_s), (10.0, 88));
    }

    #[test]
    fn by_address_user_and_family() {
        let flows = Flows::default();
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        flows.add(at("::ffff:192.0.2.1"), &user("a"), &volume(100, 7));
        flows.add(at("2001:db8::1"), &user("b"), &volume(0, 900));
        flows.add(at("192.0.2.1"), &user("a"), &volume(1, 0));
        let start = flows.told(&ALL).windows.remove(2);
        let hosts = |hosts: &[v1::Host]| hosts.iter().map(|h| (h.address.clone(), h.bytes)).collect::<Vec<_>>();
        assert_eq!(hosts(&start.sources), [("192.0.2.1".into(), 101)]);
        assert_eq!(hosts(&start.targets), [("2001:db8::1".into(), 900), ("192.0.2.1".into(), 7)]);
        assert_eq!((start.ipv4.unwrap().bytes(), start.ipv6.unwrap().bytes()), (108, 900));
        let users: Vec<_> =
            start.users.iter().map(|u| (u.user.as_str(), u.volume.bytes(), u.volume.requests)).collect();
        assert_eq!(users, [("b (of a test)", 900, 1), ("a (of a test)", 108, 2)]);
        assert_eq!(flows.told(&FlowQuery { only: None, top: 1 }).windows[2].targets.len(), 1);
    }

    #[test]
    fn who_may_see_himself_sees_nobody_else() {
        let flows = Flows::default();
        flows.add("192.0.2.1".parse().unwrap(), &user("a"), &volume(100, 7));
        flows.add("192.0.2.2".parse().unwrap(), &user("b"), &volume(100, 7));
        let told = flows.told(&FlowQuery { only: Some("b"), top: 20 });
        assert!(!told.whole_node);
        let text = serde_json::to_string(&told).unwrap();
        assert!(
            text.contains("b (of a test)") && !text.contains("a (of a test)") && !text.contains("192.0.2"),
            "{text}"
        );
        assert!(told.windows.iter().all(|window| window.all.is_none() && window.users.len() == 1));
    }
}
