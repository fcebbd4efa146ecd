//! The rates of all traffic over the network interfaces of this host, that of other processes included, as sites report them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The directory of the kernel's counters.
const CLASS: &str = "/sys/class/net";
/// The shortest and the longest span of a rate: a shorter one is imprecise, a longer one does not describe the current load.
const SPAN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));
/// The first request has no earlier reading, and waits this long for one.
const FIRST_SPAN: Duration = Duration::from_secs(1);
/// Readings that are kept.
const KEPT_MAX: usize = 64;

/// The counters at one moment, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CounterReading {
    at: Instant,
    received: u64,
    sent: u64,
}

/// Rates over a span of time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rates {
    /// Bytes per second.
    pub received: f64,
    /// Bytes per second.
    pub sent: f64,
    /// The span of time.
    pub span: Duration,
    /// The interfaces that were counted.
    pub interfaces: Vec<String>,
}

/// Earlier readings, so that a client that asks every minute gets the rates of that minute.
#[derive(Debug, Default)]
pub(crate) struct Nics(Mutex<Vec<CounterReading>>);

impl Nics {
    /// The rates since a reading some time ago.
    ///
    /// # Errors
    /// The kernel's counters cannot be read.
    pub fn rates(&self) -> io::Result<Rates> {
        let interfaces = interfaces(Path::new(CLASS))?;
        let read = || count(Path::new(CLASS), &interfaces, Instant::now());
        let mut now = read()?;
        let before = match self.before(&now) {
            Some(before) => before,
            None => {
                let first = now;
                std::thread::sleep(FIRST_SPAN);
                now = read()?;
                first
            }
        };
        self.keep(now.clone());
        let span = now.at.saturating_duration_since(before.at);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span.as_secs_f64().max(1e-3);
        Ok(Rates { received: rate(now.received, before.received), sent: rate(now.sent, before.sent), span, interfaces })
    }

    /// The newest reading that is old enough for a precise rate; without one, the oldest that is at least [`FIRST_SPAN`] old.
    fn before(&self, now: &CounterReading) -> Option<CounterReading> {
        let kept = self.0.lock();
        let age = |count: &&CounterReading| now.at.saturating_duration_since(count.at);
        let fit = kept.iter().filter(|count| (SPAN.0..SPAN.1).contains(&age(count)));
        fit.min_by_key(age)
            .or_else(|| kept.iter().filter(|c| (FIRST_SPAN..SPAN.1).contains(&age(c))).max_by_key(age))
            .cloned()
    }

    fn keep(&self, count: CounterReading) {
        let mut kept = self.0.lock();
        kept.retain(|one| count.at.saturating_duration_since(one.at) < SPAN.1);
        if kept.len() >= KEPT_MAX {
            // With very frequent requests every other reading suffices.
            let mut at = 0;
            kept.retain(|_| {
                at += 1;
                at % 2 == 0
            });
        }
        kept.push(count);
    }
}

/// The interfaces that lead out of this host: those with a device; without any, as in a container, all but the loopback.
fn interfaces(class: &Path) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(class)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "lo" && entry.path().join("statistics").is_dir() {
            all.push((entry.path().join("device").exists(), name));
        }
    }
    let has_device = all.iter().any(|(is_device, _)| *is_device);
    let mut names: Vec<String> = all.into_iter().filter(|one| one.0 == has_device).map(|one| one.1).collect();
    names.sort_unstable();
    Ok(names)
}

fn count(class: &Path, interfaces: &[String], at: Instant) -> io::Result<CounterReading> {
    let mut received = 0;
    let mut sent = 0;
    for name in interfaces {
        let read = |counter: &str| -> io::Result<u64> {
            let text = fs::read_to_string(class.join(name).join("statistics").join(counter))?;
            text.trim().parse().map_err(io::Error::other)
        };
        received += read("rx_bytes")?;
        sent += read("tx_bytes")?;
    }
    Ok(CounterReading { at, received, sent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(class: &Path, name: &str, is_device: bool, received: u64, sent: u64) {
        let statistics = class.join(name).join("statistics");
        fs::create_dir_all(&statistics).unwrap();
        fs::write(statistics.join("rx_bytes"), format!("{received}\n")).unwrap();
        fs::write(statistics.join("tx_bytes"), format!("{sent}\n")).unwrap();
        if is_device {
            fs::create_dir(class.join(name).join("device")).unwrap();
        }
    }

    #[test]
    fn interfaces_with_a_device_are_counted() {
        let class = tempfile::tempdir().unwrap();
        interface(class.path(), "lo", false, 1000, 1000);
        interface(class.path(), "veth0", false, 10, 20);
        assert_eq!(interfaces(class.path()).unwrap(), ["veth0"]);
        interface(class.path(), "eth1", true, 3, 4);
        interface(class.path(), "eth0", true, 1, 2);
        let names = interfaces(class.path()).unwrap();
        assert_eq!(names, ["eth0", "eth1"]);
        let now = Instant::now();
        assert_eq!(count(class.path(), &names, now).unwrap(), CounterReading { at: now, received: 4, sent: 6 });
    }

    #[test]
    fn a_rate_covers_a_useful_span() {
        let (nics, start) = (Nics::default(), Instant::now());
        let at = |seconds| CounterReading { at: start + Duration::from_secs(seconds), received: seconds, sent: 0 };
        assert_eq!(nics.before(&at(0)), None);
        nics.keep(at(0));
        assert_eq!(nics.before(&at(0)), None);
        assert_eq!(nics.before(&at(5)), Some(at(0)), "better than none");
        nics.keep(at(60));
        assert_eq!(nics.before(&at(120)), Some(at(60)));
        assert_eq!(nics.before(&at(80)), Some(at(0)));
        assert_eq!(nics.before(&at(10_000)), None, "of long ago");
        (0..1000).for_each(|second| nics.keep(at(100 + second / 10)));
        assert!(nics.0.lock().len() <= KEPT_MAX);
    }
}
