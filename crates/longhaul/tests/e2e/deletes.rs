//! `--delete`: how many entries that the source lacks may be removed, the message before, and what stays unchanged.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::client::{Client, words};
use crate::sync::{fill, fixtures, names};
use crate::tree::set_mode;
use crate::wrappers::as_nobody;

fn files(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}/{number}")).collect()
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[test]
fn more_than_half_of_a_large_target_is_deleted_only_on_request() {
    for fixture in fixtures() {
        // Directories count as entries: the target has 56 entries of the source, and 61 extras.
        fill(&fixture.source, &borrowed(&files("kept", 55)));
        fixture.copy(0, &[]);
        fill(&fixture.source, &["new"]);
        let extras = || fill(&fixture.target, &borrowed(&files("extra", 60)));
        extras();
        for refused in [&["--dry-run"][..], &[], &["--max-delete", "60"]] {
            let outcome = fixture.run(&[&["--delete"], refused].concat()).expect(3);
            let receipt = outcome.json();
            assert_eq!(receipt["deleted"], 0, "{}: {receipt}", fixture.name);
            let reason = receipt["failures"][0]["reason"].as_str().unwrap();
            let is_first = refused.is_empty() || refused[0] == "--dry-run";
            let expected = if is_first { "61 of the 117 entries" } else { "more than --max-delete 60" };
            assert!(reason.contains(expected) && reason.contains("--max-delete 61"), "{}: {reason}", fixture.name);
            assert!(fixture.target.join("extra/59").exists(), "{}", fixture.name);
            assert!(!outcome.err.contains("removing"), "{}", outcome.err);
        }
        assert!(fixture.target.join("new").exists(), "what was to be copied is: {}", fixture.name);
        for permission in [&["--max-delete", "61"][..], &["--force"]] {
            extras();
            let outcome = fixture.run(&[&["--delete"], permission].concat()).expect(0);
            // A directory is removed with its contents, and counts as one.
            assert_eq!(outcome.json()["deleted"], 1, "{}", fixture.name);
            let expected = "--delete: removing 61 entries of 118 at the target that the source lacks";
            assert!(outcome.err.contains(expected), "{}: {}", fixture.name, outcome.err);
        }
        assert_eq!(names(&fixture.target), names(&fixture.source), "{}", fixture.name);
    }
}

#[test]
fn half_of_a_large_target_and_most_of_a_small_one_are_deleted() {
    for (kept, extra) in [(60, 60), (3, 80)] {
        let fixture = &fixtures()[0];
        let (kept, extra) = (files("d", kept), (0..extra).map(|number| format!("extra{number}")).collect::<Vec<_>>());
        fill(&fixture.source, &borrowed(&kept));
        fixture.copy(0, &[]);
        fill(&fixture.target, &borrowed(&extra));
        assert_eq!(fixture.copy(0, &["--delete"])["deleted"], extra.len(), "{} files", kept.len());
    }
}

#[test]
fn directories_keep_their_modes_and_times() {
    as_nobody("deletes::directories_keep_their_modes_and_times", || {
        for fixture in fixtures() {
            fill(&fixture.source, &["locked/f", "open/f"]);
            fixture.copy(0, &[]);
            fill(&fixture.target, &["locked/extra", "open/extra/deep"]);
            set_mode(&fixture.source.join("locked"), 0o555);
            assert_eq!(fixture.copy(0, &["--delete"])["deleted"], 2, "{}", fixture.name);
            assert_eq!(
                names(&fixture.target),
                BTreeSet::from(["locked", "locked/f", "open", "open/f"].map(String::from))
            );
            for dir in ["locked", "open"] {
                let [there, here] =
                    [&fixture.target, &fixture.source].map(|root| fs::metadata(root.join(dir)).unwrap());
                let facts = |meta: &fs::Metadata| (meta.mode() & 0o777, meta.mtime(), meta.mtime_nsec());
                assert_eq!(facts(&there), facts(&here), "{dir}, {}", fixture.name);
            }
            for root in [&fixture.target, &fixture.source] {
                set_mode(&root.join("locked"), 0o755);
            }
        }
    });
}

#[test]
fn bounds_without_delete_are_a_usage_error() {
    let client = Client::new();
    fill(&client.path("s"), &["f"]);
    for words in [&["--force"][..], &["--max-delete", "3"], &["--delete", "--force", "--max-delete", "3"]] {
        let words = words.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
        client.run([words!["cp", "-r", client.path("s"), client.path("t")], words].concat()).expect(2);
    }
}
