//! What goes over the network interfaces of this host: the rates of all traffic, ours or not, as sites report them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Where the kernel counts.
const CLASS: &str = "/sys/class/net";
/// A rate is one over so long: shorter says little, and what was read longer ago says nothing of now.
const SPAN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));
/// Who asks first has nothing to compare with, and waits so long.
const FIRST_SPAN: Duration = Duration::from_secs(1);
/// Readings that are kept.
const KEPT_MAX: usize = 64;

/// What was counted at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
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
    /// Over how long.
    pub span: Duration,
    /// Which interfaces were counted.
    pub interfaces: Vec<String>,
}

/// Readings of before, so that whoever asks every minute is told of that minute.
#[derive(Debug, Default)]
pub(crate) struct Nics(Mutex<Vec<Count>>);

impl Nics {
    /// The rates since a reading some time ago.
    pub fn rates(&self) -> io::Result<Rates> {
        let interfaces = interfaces(Path::new(CLASS))?;
        let read = || count(Path::new(CLASS), &interfaces, Instant::now());
        let mut now = read()?;
        let known = self.before(&now);
        let before = match known {
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
        let (received, sent) = (rate(now.received, before.received), rate(now.sent, before.sent));
        Ok(Rates { received, sent, span, interfaces })
    }

    /// The newest reading that is old enough to compare with.
    fn before(&self, now: &Count) -> Option<Count> {
        let kept = self.0.lock();
        let age = |count: &&Count| now.at.saturating_duration_since(count.at);
        let fit = kept.iter().filter(|count| (SPAN.0..SPAN.1).contains(&age(count)));
        fit.min_by_key(age)
            .or_else(|| kept.iter().filter(|c| (FIRST_SPAN..SPAN.1).contains(&age(c))).max_by_key(age))
            .cloned()
    }

    fn keep(&self, count: Count) {
        let mut kept = self.0.lock();
        kept.retain(|one| count.at.saturating_duration_since(one.at) < SPAN.1);
        if kept.len() >= KEPT_MAX {
            // Of those who ask all the time every other reading is enough.
            let mut at = 0;
            kept.retain(|_| {
                at += 1;
                at % 2 == 0
            });
        }
        kept.push(count);
    }
}

/// The interfaces that lead out of this host: those with a device behind them; where there are none, as in a container, all but the
/// loopback.
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

fn count(class: &Path, interfaces: &[String], at: Instant) -> io::Result<Count> {
    let (mut received, mut sent) = (0, 0);
    for name in interfaces {
        let read = |counter: &str| -> io::Result<u64> {
            let text = fs::read_to_string(class.join(name).join("statistics").join(counter))?;
            text.trim().parse().map_err(io::Error::other)
        };
        received += read("rx_bytes")?;
        sent += read("tx_bytes")?;
    }
    Ok(Count { at, received, sent })
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
        assert_eq!(count(class.path(), &names, now).unwrap(), Count { at: now, received: 4, sent: 6 });
    }

    #[test]
    fn a_rate_is_over_a_span_that_says_something() {
        let (nics, start) = (Nics::default(), Instant::now());
        let at = |seconds| Count { at: start + Duration::from_secs(seconds), received: seconds, sent: 0 };
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
