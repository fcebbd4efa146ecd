//! Changes that help, that do nothing, that fail and that are interrupted, on a path whose rate is the setting.

use std::path::Path;

use super::*;
use crate::host::Recorded;
use crate::plan::SettingLocation;
use crate::rule::Persist;

const FILE: &str = "proc/sys/net/core/rmem_max";

/// A path whose rate is that setting, with a little noise.
struct Gauge<'a> {
    root: &'a Path,
    gain: f64,
    runs: u32,
    fails_at: u32,
}

impl Meter for Gauge<'_> {
    fn measure(&mut self) -> Result<Measured, String> {
        self.runs += 1;
        if self.runs == self.fails_at {
            return Err("nobody answers".into());
        }
        let value: f64 = std::fs::read_to_string(self.root.join(FILE)).unwrap().trim().parse().unwrap();
        let jitter = f64::from(self.runs * 7 % 5) / 1000.0;
        let rate_bit_s = 1e9 * (1.0 + jitter + self.gain * f64::from(u8::from(value > 300_000.0)));
        Ok(Measured { rate_bit_s, cpu_s_per_gb: Some(0.5 + jitter) })
    }
}

fn host() -> (tempfile::TempDir, Change) {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in [(FILE, "212992"), ("proc/sys/kernel/random/boot_id", "1"), ("etc/machine-id", "m")] {
        std::fs::create_dir_all(dir.path().join(file).parent().unwrap()).unwrap();
        std::fs::write(dir.path().join(file), text).unwrap();
    }
    let change = Change {
        ids: vec!["T01".into()],
        place: SettingLocation::Sysctl("net.core.rmem_max".into()),
        before: "212992".into(),
        after: "2147483647".into(),
        command: "sysctl -w net.core.rmem_max=2147483647".into(),
        persist: Persist::SysctlD,
        follows: false,
    };
    (dir, change)
}

fn as_it_was(root: &Path) -> bool {
    let kept = std::fs::read_dir(root.join("state")).map_or(0, Iterator::count);
    std::fs::read_to_string(root.join(FILE)).unwrap() == "212992" && kept == 0
}

fn run(gain: f64, fails_at: u32, go_on: &mut dyn FnMut(Step) -> bool) -> (Result<Trial, VerifyError>, bool) {
    let (dir, change) = host();
    let (root, state) = (dir.path(), dir.path().join("state"));
    let mut meter = Gauge { root, gain, runs: 0, fails_at };
    let found = trial(&Recorded::new(root), &[change], (&state, "now"), 5, &mut meter, go_on);
    (found, as_it_was(root))
}

#[test]
fn what_helps_is_told_from_noise() {
    let mut order = Vec::new();
    let (trial, clean) = run(0.2, 0, &mut |step| {
        order.push((step.round, step.changed));
        true
    });
    let trial = trial.unwrap();
    assert!(clean, "nothing is left changed, nothing to undo");
    assert!(!trial.rate.noise && (trial.rate.share - 0.2).abs() < 0.01, "{trial:?}");
    assert!(trial.cpu.unwrap().noise, "{trial:?}");
    assert_eq!(order[..6], [(1, false), (1, true), (2, true), (2, false), (3, false), (3, true)]);
    let (trial, _) = run(0.0, 0, &mut |_| true);
    assert!(trial.unwrap().rate.noise);
}

#[test]
fn a_test_that_fails_leaves_nothing_changed() {
    for fails_at in 1..=10 {
        let (found, clean) = run(0.2, fails_at, &mut |_| true);
        let error = found.unwrap_err().to_string();
        assert!(clean && error.contains("nobody answers") && error.contains("all is as it was"), "{fails_at}: {error}");
    }
}

#[test]
fn whoever_interrupts_it_leaves_nothing_changed() {
    for after in 1..=10 {
        let mut left = after;
        let (found, clean) = run(0.2, 0, &mut |_| {
            left -= 1;
            left > 0
        });
        assert!(clean && matches!(found, Err(VerifyError::Interrupted { .. })), "{after}: {found:?}");
    }
}

#[test]
fn what_cannot_be_changed_is_no_trial() {
    let (dir, change) = host();
    let state = dir.path().join("state");
    let absent = Change { place: SettingLocation::Sysctl("net.core.no_such".into()), ..change.clone() };
    let mut meter = Gauge { root: dir.path(), gain: 0.0, runs: 0, fails_at: 0 };
    let found = trial(&Recorded::new(dir.path()), &[change, absent], (&state, "now"), 5, &mut meter, &mut |_| true);
    assert!(matches!(found, Err(VerifyError::Apply(ApplyError::Refused { .. }))), "{found:?}");
    assert!(as_it_was(dir.path()));
}
