//! `--delete`: how many entries that the source lacks may be removed, the message before, and what stays unchanged.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::client::{Client, words};
use crate::sync::{fill, names, ways};
use crate::tree::set_mode;
use crate::wrappers::as_nobody;

fn files(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}/{number}")).collect()
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[test]
fn more_than_half_of_a_large_target_stays_unless_it_is_meant() {
    for way in ways() {
        // With the directories that they are in: 56 that are offered, of which one is not there yet, and 61 extras.
        fill(&way.source, &borrowed(&files("kept", 55)));
        way.copy(0, &[]);
        fill(&way.source, &["new"]);
        let extras = || fill(&way.target, &borrowed(&files("extra", 60)));
        extras();
        for refused in [&["--dry-run"][..], &[], &["--max-delete", "60"]] {
            let outcome = way.run(&[&["--delete"], refused].concat()).expect(3);
            let receipt = outcome.json();
            assert_eq!(receipt["deleted"], 0, "{}: {receipt}", way.name);
            let reason = receipt["failures"][0]["reason"].as_str().unwrap();
            let is_first = refused.is_empty() || refused[0] == "--dry-run";
            let said = if is_first { "61 of the 117 entries" } else { "more than --max-delete 60" };
            assert!(reason.contains(said) && reason.contains("--max-delete 61"), "{}: {reason}", way.name);
            assert!(way.target.join("extra/59").exists(), "{}", way.name);
            assert!(!outcome.err.contains("removing"), "{}", outcome.err);
        }
        assert!(way.target.join("new").exists(), "what was to be copied is: {}", way.name);
        for meant in [&["--max-delete", "61"][..], &["--force"]] {
            extras();
            let outcome = way.run(&[&["--delete"], meant].concat()).expect(0);
            // A directory goes with all that is in it, and counts as one.
            assert_eq!(outcome.json()["deleted"], 1, "{}", way.name);
            let said = "--delete: removing 61 entries of 118 at the target that the source lacks";
            assert!(outcome.err.contains(said), "{}: {}", way.name, outcome.err);
        }
        assert_eq!(names(&way.target), names(&way.source), "{}", way.name);
    }
}

#[test]
fn half_of_it_goes_and_so_does_most_of_a_small_target() {
    for (kept, extra) in [(60, 60), (3, 80)] {
        let way = &ways()[0];
        let (kept, extra) = (files("d", kept), (0..extra).map(|number| format!("extra{number}")).collect::<Vec<_>>());
        fill(&way.source, &borrowed(&kept));
        way.copy(0, &[]);
        fill(&way.target, &borrowed(&extra));
        assert_eq!(way.copy(0, &["--delete"])["deleted"], extra.len(), "{} files", kept.len());
    }
}

#[test]
fn directories_keep_their_modes_and_times() {
    as_nobody("deletes::directories_keep_their_modes_and_times", || {
        for way in ways() {
            fill(&way.source, &["locked/f", "open/f"]);
            way.copy(0, &[]);
            fill(&way.target, &["locked/extra", "open/extra/deep"]);
            set_mode(&way.source.join("locked"), 0o555);
            assert_eq!(way.copy(0, &["--delete"])["deleted"], 2, "{}", way.name);
            assert_eq!(names(&way.target), BTreeSet::from(["locked", "locked/f", "open", "open/f"].map(String::from)));
            for dir in ["locked", "open"] {
                let [there, here] = [&way.target, &way.source].map(|root| fs::metadata(root.join(dir)).unwrap());
                let facts = |meta: &fs::Metadata| (meta.mode() & 0o777, meta.mtime(), meta.mtime_nsec());
                assert_eq!(facts(&there), facts(&here), "{dir}, {}", way.name);
            }
            for root in [&way.target, &way.source] {
                set_mode(&root.join("locked"), 0o755);
            }
        }
    });
}

#[test]
fn bounds_go_with_delete() {
    let client = Client::new();
    fill(&client.path("s"), &["f"]);
    for words in [&["--force"][..], &["--max-delete", "3"], &["--delete", "--force", "--max-delete", "3"]] {
        let words = words.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
        client.run([words!["cp", "-r", client.path("s"), client.path("t")], words].concat()).expect(2);
    }
}
