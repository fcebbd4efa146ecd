//! Trials of changes that help, that do nothing, that fail and that are interrupted, with a meter whose rate depends on the setting.

use std::path::Path;

use super::*;
use crate::host::Recorded;
use crate::plan::SettingLocation;
use crate::rule::Persist;

const FILE: &str = "proc/sys/net/core/rmem_max";

/// A meter whose rate depends on that setting, with a little noise.
struct SettingMeter<'a> {
    root: &'a Path,
    gain: f64,
    runs: u32,
    fails_at: u32,
}

impl Meter for SettingMeter<'_> {
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

fn is_unchanged(root: &Path) -> bool {
    let snapshots = std::fs::read_dir(root.join("state")).map_or(0, Iterator::count);
    std::fs::read_to_string(root.join(FILE)).unwrap() == "212992" && snapshots == 0
}

fn run(gain: f64, fails_at: u32, go_on: &mut dyn FnMut(Step) -> bool) -> (Result<Trial, VerifyError>, bool) {
    let (dir, change) = host();
    let root = dir.path();
    let state = dir.path().join("state");
    let mut meter = SettingMeter { root, gain, runs: 0, fails_at };
    let found =
        trial(&Recorded::new(root), &[change], SnapshotPlace { dir: &state, time: "now" }, 5, &mut meter, go_on);
    (found, is_unchanged(root))
}

#[test]
fn an_effect_is_distinguished_from_noise() {
    let mut order = Vec::new();
    let (trial, unchanged) = run(0.2, 0, &mut |step| {
        order.push((step.round, step.changed));
        true
    });
    let trial = trial.unwrap();
    assert!(unchanged, "nothing is left changed, nothing to undo");
    assert!(!trial.rate.noise && (trial.rate.share - 0.2).abs() < 0.01, "{trial:?}");
    assert!(trial.cpu.unwrap().noise, "{trial:?}");
    assert_eq!(order[..6], [(1, false), (1, true), (2, true), (2, false), (3, false), (3, true)]);
    let (trial, _) = run(0.0, 0, &mut |_| true);
    assert!(trial.unwrap().rate.noise);
}

#[test]
fn a_test_that_fails_leaves_nothing_changed() {
    for fails_at in 1..=10 {
        let (found, unchanged) = run(0.2, fails_at, &mut |_| true);
        let error = found.unwrap_err().to_string();
        assert!(
            unchanged && error.contains("nobody answers") && error.contains("all is as it was"),
            "{fails_at}: {error}"
        );
    }
}

#[test]
fn an_interrupted_trial_leaves_nothing_changed() {
    for after in 1..=10 {
        let mut left = after;
        let (found, unchanged) = run(0.2, 0, &mut |_| {
            left -= 1;
            left > 0
        });
        assert!(unchanged && matches!(found, Err(VerifyError::Interrupted { .. })), "{after}: {found:?}");
    }
}

#[test]
fn a_change_that_cannot_be_made_fails_the_trial() {
    let (dir, change) = host();
    let state = dir.path().join("state");
    let absent = Change { place: SettingLocation::Sysctl("net.core.no_such".into()), ..change.clone() };
    let mut meter = SettingMeter { root: dir.path(), gain: 0.0, runs: 0, fails_at: 0 };
    let found = trial(
        &Recorded::new(dir.path()),
        &[change, absent],
        SnapshotPlace { dir: &state, time: "now" },
        5,
        &mut meter,
        &mut |_| true,
    );
    assert!(matches!(found, Err(VerifyError::Apply(ApplyError::Refused { .. }))), "{found:?}");
    assert!(is_unchanged(dir.path()));
}
