//! Top talkers: the addresses and users that move most, over the last minute, the last hour, and since the node started.
//!
//! Time is cut into buckets of 5 s for the minute and of 5 min for the hour; thirteen of each are kept, so that twelve whole
//! buckets always exist. A bucket has three tables of those that moved most, [`ROWS`] rows each ([`sketch`]), and exact sums of the bytes
//! over IPv4 and IPv6. In all there are 27 buckets of 3 tables: 81,000 rows. A row takes about 100 bytes; the name of a user, at
//! most 512 bytes, is shared by all tables. So the memory is about 10 MB if that many addresses move bytes within an hour, and
//! tens of kB on most nodes.
//!
//! A new key in a full table costs a scan of all its rows, some 3 µs, once for each request and not for each block.
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

/// The user on whose behalf bytes move.
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
        Bucket {
            ipv4: Volume::default(),
            ipv6: Volume::default(),
            sources: Sketch::new(ROWS),
            targets: Sketch::new(ROWS),
            users: Sketch::new(ROWS),
        }
    }

    fn add(&mut self, address: IpAddr, user: &Arc<User>, volume: &Volume) {
        if address.is_ipv4() { &mut self.ipv4 } else { &mut self.ipv6 }.add(volume);
        let received = Volume { bytes_in: volume.bytes_in, files_in: volume.files_in, ..Volume::default() };
        let sent = Volume { bytes_out: volume.bytes_out, files_out: volume.files_out, ..Volume::default() };
        if received != Volume::default() {
            self.sources.add(&address, &received);
        }
        if sent != Volume::default() {
            self.targets.add(&address, &sent);
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

    /// Drops buckets that are too old. Returns the number of the current bucket.
    fn advance(&mut self, at: Duration) -> u64 {
        let number = at.as_millis() as u64 / self.width.as_millis() as u64;
        while self.buckets.front().is_some_and(|(first, _)| first + BUCKETS <= number) {
            self.buckets.pop_front();
        }
        number
    }

    fn bucket(&mut self, at: Duration) -> Option<&mut Bucket> {
        let number = self.advance(at);
        if self.buckets.back().is_none_or(|(last, _)| *last < number) {
            self.buckets.push_back((number, Bucket::new()));
        }
        self.buckets.back_mut().map(|(_, bucket)| bucket)
    }

    fn report(&mut self, at: Duration, query: &FlowQuery<'_>) -> v1::Window {
        let number = self.advance(at);
        let since = self.width * (number + 1).saturating_sub(BUCKETS) as u32;
        let buckets: Vec<&Bucket> = self.buckets.iter().map(|(_, bucket)| bucket).collect();
        window(self.name, at.saturating_sub(since), &buckets, query)
    }
}

#[derive(Debug)]
struct Windows {
    minute: Ring,
    hour: Ring,
    /// All since the node started.
    start: Bucket,
}

/// The top talkers of a node.
#[derive(Debug)]
pub(crate) struct Flows {
    began: Instant,
    windows: Mutex<Windows>,
}

/// Selects the rows of the tables that a report has.
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
        let address = address.to_canonical();
        let mut windows = self.windows();
        let Windows { minute, hour, start } = &mut *windows;
        for bucket in [minute.bucket(at), hour.bucket(at), Some(start)].into_iter().flatten() {
            bucket.add(address, user, volume);
        }
    }

    /// The report of all windows.
    pub fn report(&self, query: &FlowQuery<'_>) -> v1::Flows {
        self.report_at(self.began.elapsed(), query)
    }

    fn report_at(&self, at: Duration, query: &FlowQuery<'_>) -> v1::Flows {
        let mut windows = self.windows();
        let (minute, hour) = (windows.minute.report(at, query), windows.hour.report(at, query));
        let start = window("start", at, &[&windows.start], query);
        v1::Flows { v: 1, whole_node: query.only.is_none(), windows: vec![minute, hour, start] }
    }
}

/// The report of one window.
fn window(name: &str, span: Duration, buckets: &[&Bucket], query: &FlowQuery<'_>) -> v1::Window {
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

    fn bytes(report: &v1::Flows) -> Vec<u64> {
        report.windows.iter().map(|window| window.all.unwrap().bytes()).collect()
    }

    #[test]
    fn old_bytes_leave_the_minute_and_the_hour_but_not_the_total() {
        let flows = Flows::default();
        let (second, at) = (Duration::from_secs(1), "192.0.2.1".parse().unwrap());
        flows.add_at(second, at, &user("a"), &volume(100, 0));
        flows.add_at(second * 58, at, &user("a"), &volume(10, 0));
        assert_eq!(bytes(&flows.report_at(second * 59, &ALL)), [110, 110, 110]);
        assert_eq!(bytes(&flows.report_at(second * 65, &ALL)), [10, 110, 110]);
        assert_eq!(bytes(&flows.report_at(second * 3599, &ALL)), [0, 110, 110]);
        assert_eq!(bytes(&flows.report_at(second * 3900, &ALL)), [0, 0, 110]);
        // The window covers at least a whole minute, and its rate is over the time that it really covers.
        let report = flows.report_at(second * 119, &ALL);
        assert!((60.0..65.1).contains(&report.windows[0].seconds), "{}", report.windows[0].seconds);
        let report = flows.report_at(second * 10, &ALL);
        assert_eq!((report.windows[0].seconds, report.windows[2].users[0].rate_bit_s), (10.0, 88));
    }

    #[test]
    fn bytes_are_counted_by_address_user_and_family() {
        let flows = Flows::default();
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        flows.add(at("::ffff:192.0.2.1"), &user("a"), &volume(100, 7));
        flows.add(at("2001:db8::1"), &user("b"), &volume(0, 900));
        flows.add(at("192.0.2.1"), &user("a"), &volume(1, 0));
        let start = flows.report(&ALL).windows.remove(2);
        let hosts = |hosts: &[v1::Host]| hosts.iter().map(|h| (h.address.clone(), h.bytes)).collect::<Vec<_>>();
        assert_eq!(hosts(&start.sources), [("192.0.2.1".into(), 101)]);
        assert_eq!(hosts(&start.targets), [("2001:db8::1".into(), 900), ("192.0.2.1".into(), 7)]);
        assert_eq!((start.ipv4.unwrap().bytes(), start.ipv6.unwrap().bytes()), (108, 900));
        let users: Vec<_> =
            start.users.iter().map(|u| (u.user.as_str(), u.volume.bytes(), u.volume.requests)).collect();
        assert_eq!(users, [("b (of a test)", 900, 1), ("a (of a test)", 108, 2)]);
        assert_eq!(flows.report(&FlowQuery { only: None, top: 1 }).windows[2].targets.len(), 1);
    }

    #[test]
    fn a_holder_sees_only_its_own_row() {
        let flows = Flows::default();
        flows.add("192.0.2.1".parse().unwrap(), &user("a"), &volume(100, 7));
        flows.add("192.0.2.2".parse().unwrap(), &user("b"), &volume(100, 7));
        let report = flows.report(&FlowQuery { only: Some("b"), top: 20 });
        assert!(!report.whole_node);
        let text = serde_json::to_string(&report).unwrap();
        assert!(
            text.contains("b (of a test)") && !text.contains("a (of a test)") && !text.contains("192.0.2"),
            "{text}"
        );
        assert!(report.windows.iter().all(|window| window.all.is_none() && window.users.len() == 1));
    }
}
