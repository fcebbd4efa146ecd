//! Synchronisation: what is removed, left out and listed, and the output of a dry run. Each test pushes, pulls and copies
//! locally, because another process decides in each case.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::client::{Client, Outcome, words};
use crate::node::Node;
use crate::tree::{assert_copied, facts, pattern, set_mode, set_time};
use crate::wrappers::as_nobody;

/// A copy of a tree from `source` to `target`, under these locators.
pub struct CopyFixture {
    pub name: &'static str,
    /// The node of the copy; a local copy does not use it.
    _node: Node,
    pub client: Client,
    pub source: PathBuf,
    pub target: PathBuf,
    pub from: String,
    pub to: String,
}

/// The copies: a push, a pull and a local one. The source exists and is empty.
pub fn fixtures() -> Vec<CopyFixture> {
    let fixture = |name| {
        let (node, client) = (Node::open(), Client::new());
        let (source, target) = match name {
            "push" => (client.path("s"), node.data("t")),
            "pull" => (node.data("s"), client.path("t")),
            _ => (client.path("s"), client.path("t")),
        };
        let from = if name == "pull" { node.at("data/s") } else { source.display().to_string() };
        let to = if name == "push" { node.at("data/t") } else { target.display().to_string() };
        fs::create_dir(&source).unwrap();
        CopyFixture { name, _node: node, client, source, target, from, to }
    };
    ["push", "pull", "local"].map(fixture).into()
}

impl CopyFixture {
    /// `cp -r` with these options, which must end with this code; the receipt.
    #[track_caller]
    pub fn copy(&self, code: i32, options: &[&str]) -> Value {
        self.run(options).expect(code).json()
    }

    /// The same, however it ends.
    pub fn run(&self, options: &[&str]) -> Outcome {
        let mut words = words!["cp", "-r", self.from, self.to, "--json"];
        words.extend(options.iter().map(Into::into));
        self.client.run(words)
    }

    /// The same with a list of files.
    fn copy_listed(&self, list: &[u8], options: &[&str]) -> Outcome {
        let list = self.client.write("list", list);
        let mut words = words!["cp", self.from, self.to, "--json", "--files-from", list];
        words.extend(options.iter().map(Into::into));
        self.client.run(words)
    }
}

/// Writes files below a directory, each with its own path as content.
pub fn fill(root: &Path, files: &[&str]) {
    for file in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
}

/// Everything below a directory.
pub fn names(root: &Path) -> BTreeSet<String> {
    let below = |path: PathBuf| path.strip_prefix(".").unwrap().to_str().unwrap().to_owned();
    facts(root).entries.into_keys().map(below).filter(|name| !name.is_empty()).collect()
}

/// Names as [`names`] has them.
pub fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// Everything that a change would show in, times of change included.
fn listing(root: &Path) -> BTreeMap<PathBuf, [i64; 9]> {
    let see = |path: PathBuf| {
        let meta = fs::symlink_metadata(root.join(&path)).unwrap();
        let (mtime, ctime) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        let owner = (i64::from(meta.uid()) << 32) | i64::from(meta.gid());
        let (ino, mode, size, links) = (meta.ino(), meta.mode(), meta.size(), meta.nlink());
        let seen = [ino as i64, mode.into(), owner, size as i64, links as i64, mtime.0, mtime.1, ctime.0, ctime.1];
        (path, seen)
    };
    facts(root).entries.into_keys().map(see).collect()
}

/// The steps and paths in the `would` lines of a dry run.
fn would(outcome: &Outcome) -> BTreeSet<String> {
    let lines = outcome.text();
    let objects = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let steps = objects.filter(|object| object["event"] == "would");
    steps.map(|step| format!("{} {}", step["step"].as_str().unwrap(), step["path"].as_str().unwrap())).collect()
}

#[test]
fn delete_removes_what_the_source_lacks() {
    for fixture in fixtures() {
        fill(&fixture.source, &["f", "d/f", "e/f"]);
        fixture.copy(0, &[]);
        fill(&fixture.target, &["extra", "d/extra", "gone/deep/er", "d/gone/x"]);
        symlink("/etc", fixture.target.join("link")).unwrap();
        symlink("nowhere", fixture.target.join("d/dangling")).unwrap();
        fs::create_dir_all(fixture.target.join("empty/er")).unwrap();
        // Without it they stay.
        assert_eq!(fixture.copy(0, &[])["deleted"], 0, "{}", fixture.name);
        assert!(fixture.target.join("gone/deep/er").exists());
        let receipt = fixture.copy(0, &["--delete"]);
        // One for each removed name, whatever was below it.
        assert_eq!(receipt["deleted"], 7, "{}: {receipt}", fixture.name);
        assert_copied(&fixture.source, &fixture.target);
        assert!(fs::read_dir("/etc").unwrap().next().is_some());
        assert_eq!(fixture.copy(0, &["--delete"])["deleted"], 0);
    }
}

#[test]
fn delete_keeps_excluded_entries() {
    for fixture in fixtures() {
        fill(&fixture.source, &["f", "d/f", "new.log"]);
        fill(
            &fixture.target,
            &["keep.log", "d/keep.log", "tmp/inner", "d/tmp/inner", "extra", "old/keep.log", "old/gone"],
        );
        let receipt = fixture.copy(0, &["--delete", "--exclude", "*.log", "--exclude", "tmp/"]);
        // A directory that contains excluded entries stays.
        let left = ["d", "d/f", "d/keep.log", "d/tmp", "d/tmp/inner", "f", "keep.log", "old", "old/keep.log", "tmp"];
        let left: BTreeSet<String> = left.iter().chain(&["tmp/inner"]).map(|name| (*name).to_owned()).collect();
        assert_eq!(names(&fixture.target), left, "{}: {receipt}", fixture.name);
    }
}

#[test]
fn delete_needs_a_whole_tree() {
    let (node, client) = (Node::open(), Client::new());
    fill(&client.path("s"), &["f"]);
    fill(&node.data("t"), &["extra"]);
    let list = client.write("list", "f\n");
    let (from, to) = (client.path("s"), node.at("data/t"));
    client.run(words!["cp", from, to, "--delete"]).expect(2);
    client.run(words!["cp", client.path("s/f"), to, "--delete"]).expect(2);
    client.run(words!["cp", "-r", from, to, "--delete", "--files-from", list]).expect(2);
    client.run(words!["cp", "-r", from, to, "--delete", "--no-overwrite"]).expect(2);
    assert_eq!(names(&node.data("t")), set(["extra"]));
    // A source that is not there at all is no reason to empty the target.
    client.run(words!["cp", "-r", client.path("missing"), to, "--delete"]).expect(1);
    assert_eq!(names(&node.data("t")), set(["extra"]));
}

#[test]
fn an_empty_source_empties_nothing() {
    for fixture in fixtures() {
        fs::create_dir_all(&fixture.source).unwrap();
        fill(&fixture.target, &["extra", "d/extra"]);
        for more in [&["--delete", "--dry-run"][..], &["--delete"]] {
            let outcome = fixture.run(more);
            assert_ne!(outcome.code, 0, "{}: {}", fixture.name, outcome.text());
            let receipt = outcome.json();
            assert_eq!(receipt["deleted"], 0, "{}: {receipt}", fixture.name);
            let reason = receipt["failures"][0]["reason"].as_str().unwrap();
            assert!(reason.contains("the source is empty"), "{}: {reason}", fixture.name);
        }
        assert_eq!(names(&fixture.target), set(["extra", "d", "d/extra"]), "{}", fixture.name);
        // Directories below the root may be empty, and an empty target loses nothing.
        fill(&fixture.source, &["f"]);
        fs::create_dir(fixture.source.join("d")).unwrap();
        assert_eq!(fixture.copy(0, &["--delete"])["deleted"], 2, "{}", fixture.name);
    }
}

#[test]
fn delete_needs_a_dangerous_target_named_in_full() {
    let client = Client::new();
    fill(&client.path("s"), &["f"]);
    fill(&client.path("t/below"), &["extra"]);
    let delete_in = |dir: &str, target: &str| {
        let mut command = client.command(words!["cp", "-r", "--delete", client.path("s"), target]);
        command.current_dir(client.path(dir));
        let outcome = client.start(command).finish();
        (outcome.code, outcome.err)
    };
    for (dir, target) in [("t", "."), ("t/below", ".."), ("t/below", "../../t"), ("t", "/")] {
        let (code, err) = delete_in(dir, target);
        assert_eq!(code, 2, "{target} in {dir}: {err}");
        assert!(target == "/" || err.contains("name it in full"), "{err}");
    }
    assert!(client.path("t/below/extra").exists());
    // With a target directory only the entry of the source's name is compared.
    assert_eq!(delete_in("t", "./").0, 0);
    assert!(client.path("t/below/extra").exists() && client.path("t/s/f").exists());
    assert_eq!(delete_in("t", client.path("t").to_str().unwrap()).0, 0);
    assert!(!client.path("t/below").exists());
}

#[test]
fn a_directory_that_could_not_be_read_loses_nothing() {
    as_nobody("sync::a_directory_that_could_not_be_read_loses_nothing", || {
        for fixture in fixtures() {
            fill(&fixture.source, &["f", "half/locked/x", "half/f", "fine/f"]);
            fixture.copy(0, &[]);
            fill(&fixture.target, &["extra", "half/extra", "half/locked/extra", "fine/extra"]);
            set_mode(&fixture.source.join("half/locked"), 0);
            let receipt = fixture.copy(3, &["--delete"]);
            let there = names(&fixture.target);
            for stays in ["extra", "fine/extra", "half/extra", "half/locked/extra", "half/locked/x", "half/f"] {
                assert!(there.contains(stays), "{}: {stays} went: {receipt}", fixture.name);
            }
            let failures = receipt["failures"].as_array().unwrap();
            assert!(failures.iter().any(|miss| miss["path"].as_str().unwrap().ends_with("half/locked")), "{receipt}");
            let is_reported = |miss: &Value| {
                miss["reason"].as_str().unwrap().starts_with("1 of the source's entries could not be read")
            };
            assert!(failures.iter().any(is_reported), "{receipt}");
            set_mode(&fixture.source.join("half/locked"), 0o755);
            fixture.copy(0, &["--delete"]);
            assert_eq!(names(&fixture.target), names(&fixture.source), "{}", fixture.name);
        }
    });
}

#[test]
fn a_create_only_key_deletes_nothing() {
    let node = Node::closed();
    let client = Client::with_key(&node.grant(&["--export", "data", "--create"]));
    fill(&client.path("s"), &["f", "d/f"]);
    fill(&node.data("t"), &["extra", "d/extra"]);
    for options in [words![], words!["--dry-run"]] {
        let outcome = client
            .run([words!["cp", "-r", client.path("s"), node.at("data/t"), "--delete", "--json"], options].concat());
        assert!([3, 4].contains(&outcome.code), "{}: {}", outcome.code, outcome.err);
        assert_eq!(outcome.json()["deleted"], 0);
        assert!(!would(&outcome).iter().any(|step| step.starts_with("delete")));
        assert!(node.data("t/extra").exists() && node.data("t/d/extra").exists());
    }
}

#[test]
fn the_first_pattern_that_fits_decides() {
    let files = ["a.fits", "a.log", "raw/b.fits", "raw/b.log", "raw/tmp/c.fits", "tmp/d.fits", "raw/important.log"];
    let cases: [(&[&str], &[&str]); 6] = [
        (
            &["--include", "*/", "--include", "*.fits", "--exclude", "*"],
            &["a.fits", "raw/b.fits", "raw/tmp/c.fits", "tmp/d.fits"],
        ),
        // In the other order nothing is left for the second rule.
        (&["--exclude", "*", "--include", "*.fits"], &[]),
        (
            &["--include", "important.log", "--exclude", "*.log", "--exclude", "tmp/"],
            &["a.fits", "raw/b.fits", "raw/important.log"],
        ),
        (&["--exclude", "*.log", "--include", "important.log", "--exclude", "tmp/"], &["a.fits", "raw/b.fits"]),
        // A slash anchors, and `*` stops at it.
        (&["--exclude", "/tmp", "--exclude", "raw/*.log"], &["a.fits", "a.log", "raw/b.fits", "raw/tmp/c.fits"]),
        (&["--exclude", "raw/**", "--exclude", "*.log"], &["a.fits", "tmp/d.fits"]),
    ];
    for fixture in fixtures() {
        fill(&fixture.source, &files);
        for (options, taken) in cases {
            fixture.copy(0, options);
            let found: BTreeSet<String> =
                names(&fixture.target).into_iter().filter(|name| fixture.target.join(name).is_file()).collect();
            let taken: BTreeSet<String> = taken.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(found, taken, "{} {options:?}", fixture.name);
            fs::remove_dir_all(&fixture.target).unwrap();
        }
        fixture.run(&["--exclude", "a["]).expect(2);
    }
}

#[test]
fn listed_files_are_copied_to_the_listed_targets() {
    for fixture in fixtures().into_iter().filter(|fixture| fixture.name != "local") {
        fill(&fixture.source, &["one", "deep/two", "deep/three", "dir/a", "dir/b/c", "not listed"]);
        set_time(&fixture.source.join("deep/two"), 1_000, 5);
        // A directory that is there keeps its mode and time; what is missing is made.
        fs::create_dir_all(fixture.target.join("new")).unwrap();
        fill(&fixture.target, &["new/there"]);
        set_mode(&fixture.target.join("new"), 0o750);
        set_mode(&fixture.target, 0o770);
        set_time(&fixture.target.join("new"), 4_000, 1);
        set_time(&fixture.target, 5_000, 1);
        let list = b"one\ndeep/two\tnew/2 renamed\r\n\ndir\tmoved/dir\ndeep/three\n";
        let receipt = fixture.copy_listed(list, &["-r"]).expect(0).json();
        let made = ["one", "new", "new/there", "new/2 renamed", "moved", "moved/dir", "moved/dir/a", "moved/dir/b"];
        let more = ["moved/dir/b/c", "deep", "deep/three"];
        let made: BTreeSet<String> = made.iter().chain(&more).map(|name| (*name).to_owned()).collect();
        assert_eq!(names(&fixture.target), made, "{}", fixture.name);
        assert_eq!(receipt["files"], 5, "{}: {receipt}", fixture.name);
        let two = fs::metadata(fixture.target.join("new/2 renamed")).unwrap();
        assert_eq!(
            (two.mtime(), fs::read(fixture.target.join("new/2 renamed")).unwrap()),
            (1_000, b"deep/two".to_vec())
        );
        assert_copied(&fixture.source.join("dir"), &fixture.target.join("moved/dir"));
        assert_eq!(fs::metadata(fixture.target.join("new")).unwrap().mode() & 0o777, 0o750, "{}", fixture.name);
        assert_eq!(fs::metadata(&fixture.target).unwrap().mode() & 0o777, 0o770, "{}", fixture.name);
        // Again: all of it is there.
        let again = fixture.copy_listed(list, &["-r"]).expect(0).json();
        assert_eq!((&again["files"], &again["skipped"]), (&0.into(), &5.into()), "{}: {again}", fixture.name);
    }
}

#[test]
fn a_listed_directory_that_gets_nothing_new_keeps_its_time() {
    for fixture in fixtures() {
        fill(&fixture.source, &["d/f"]);
        fixture.copy_listed(b"d/f\n", &[]).expect(0);
        set_mode(&fixture.target.join("d"), 0o711);
        set_time(&fixture.target.join("d"), 4_000, 1);
        fixture.copy_listed(b"d/f\n", &[]).expect(0);
        let d = fs::metadata(fixture.target.join("d")).unwrap();
        assert_eq!((d.mtime(), d.mode() & 0o777), (4_000, 0o711), "{}", fixture.name);
    }
}

#[test]
fn a_listed_file_that_is_missing_is_named() {
    for fixture in fixtures() {
        fill(&fixture.source, &["one", "dir/a"]);
        let receipt = fixture.copy_listed(b"one\nmissing/file\tunder/another name\ndir\n", &[]).expect(3).json();
        assert_eq!((&receipt["files"], &receipt["failed"]), (&1.into(), &2.into()), "{}: {receipt}", fixture.name);
        let failures: Vec<String> = receipt["failures"].as_array().unwrap().iter().map(Value::to_string).collect();
        assert!(failures.iter().any(|miss| miss.contains("missing/file") || miss.contains("another name")));
        // A directory needs -r.
        assert!(failures.iter().any(|miss| miss.contains("-r")), "{}: {failures:?}", fixture.name);
        let lone = fixture.copy_listed(b"missing\n", &[]);
        assert!([1, 3].contains(&lone.code), "{}: {}", fixture.name, lone.code);
    }
}

#[test]
fn an_invalid_list_is_a_usage_error() {
    let fixture = fixtures().remove(0);
    fill(&fixture.source, &["a", "b", "d/a"]);
    for list in
        [&b"a\tx\nb\tx\n"[..], b"a\nb\ta\n", b"a\tx\nb\tx/y\n", b"../a\n", b"a\t../x\n", b".\n", b"a\ta/../../x\n"]
    {
        let outcome = fixture.copy_listed(list, &["-r"]).expect(2);
        assert!(outcome.err.contains("list"), "{}", outcome.err);
        assert!(!fixture.target.exists());
    }
    let missing = words!["cp", fixture.from, fixture.to, "--files-from", fixture.client.path("no such list")];
    fixture.client.run(missing).refused(2, &["no such list"]);
    let two = words!["cp", fixture.source, fixture.source, fixture.to, "--files-from", fixture.client.path("list")];
    fixture.client.run(two).refused(2, &["one source"]);
    // One file may go to two places.
    fixture.copy_listed(b"a\tx\na\ty\n", &[]).expect(0);
    assert_eq!(names(&fixture.target), set(["x", "y"]));
}

#[test]
fn hard_links_hold_across_renames() {
    for fixture in fixtures() {
        fill(&fixture.source, &["a", "d/x"]);
        fs::write(fixture.source.join("large"), pattern(3 << 20)).unwrap();
        fs::hard_link(fixture.source.join("a"), fixture.source.join("d/a2")).unwrap();
        fs::hard_link(fixture.source.join("large"), fixture.source.join("d/large2")).unwrap();
        let list = b"d/a2\tz/second\na\tfirst\nlarge\tq/large\nd/large2\tb/large\n";
        fixture.copy_listed(list, &[]).expect(0);
        let inode = |name: &str| fs::metadata(fixture.target.join(name)).unwrap().ino();
        assert_eq!(inode("first"), inode("z/second"), "{}", fixture.name);
        assert_eq!(inode("q/large"), inode("b/large"), "{}", fixture.name);
        assert_eq!(fs::read(fixture.target.join("b/large")).unwrap(), pattern(3 << 20));
        // And in a copy of the whole tree.
        fs::remove_dir_all(&fixture.target).unwrap();
        fixture.copy(0, &[]);
        assert_copied(&fixture.source, &fixture.target);
    }
}

#[test]
fn a_dry_run_changes_nothing_and_lists_everything() {
    for fixture in fixtures() {
        fill(&fixture.source, &["same", "differs", "new", "d/new", "fresh/deep/f"]);
        fixture.copy(0, &[]);
        fs::remove_file(fixture.target.join("new")).unwrap();
        fs::remove_file(fixture.target.join("d/new")).unwrap();
        fs::remove_dir_all(fixture.target.join("fresh")).unwrap();
        fs::write(fixture.target.join("differs"), b"something else").unwrap();
        symlink("same", fixture.source.join("link")).unwrap();
        fs::hard_link(fixture.source.join("fresh/deep/f"), fixture.source.join("hard")).unwrap();
        fill(&fixture.target, &["extra", "d/extra/x"]);
        let before = listing(&fixture.target);
        let outcome = fixture.run(&["--dry-run", "--delete"]).expect(0);
        let receipt = outcome.json();
        assert!(listing(&fixture.target) == before, "{}", fixture.name);
        // The source's file system decides which of the two names of one file comes first.
        let (mut steps, names) = (would(&outcome), ["fresh/deep/f", "hard"]);
        let of_file =
            |steps: &BTreeSet<String>, step: &str| names.map(|name| steps.contains(&format!("{step} {name}")));
        let (copied, linked) = (of_file(&steps, "copy"), of_file(&steps, "link"));
        assert!(copied != linked && copied[0] != copied[1], "{}: {steps:?}", fixture.name);
        steps.retain(|step| !names.iter().any(|name| step.ends_with(name)));
        let planned = ["copy differs", "copy new", "copy d/new", "mkdir fresh", "mkdir fresh/deep", "link link"];
        let planned: BTreeSet<String> =
            planned.iter().chain(&["delete extra", "delete d/extra"]).map(|s| (*s).into()).collect();
        assert_eq!(steps, planned, "{}", fixture.name);
        assert_eq!((&receipt["dry_run"], &receipt["files"], &receipt["deleted"]), (&true.into(), &4.into(), &2.into()));
        // For people: the same, one a line.
        let text = fixture.client.run(words!["cp", "-r", fixture.from, fixture.to, "-n", "--delete"]).expect(0).text();
        for line in ["copy   new (3 B)", "mkdir  fresh", "link   link", "delete d/extra"] {
            assert!(text.lines().any(|printed| printed == line), "{}: {line:?} is not in {text}", fixture.name);
        }
        assert!(listing(&fixture.target) == before, "{}", fixture.name);
        // The copy does what the plan stated.
        fixture.copy(0, &["--delete"]);
        assert_copied(&fixture.source, &fixture.target);
        assert!(would(&fixture.run(&["-n", "--delete"]).expect(0)).is_empty());
    }
}

#[test]
fn a_dry_run_needs_no_existing_target() {
    for fixture in fixtures() {
        fill(&fixture.source, &["d/f"]);
        let outcome = fixture.run(&["--dry-run"]).expect(0);
        assert!(!fixture.target.exists(), "{}", fixture.name);
        assert!(would(&outcome).contains("copy d/f"), "{}: {}", fixture.name, outcome.text());
        let listed = fixture.copy_listed(b"d/f\tx/y/z\n", &["--dry-run"]).expect(0);
        assert!(
            !fixture.target.exists() && would(&listed).contains("copy x/y/z"),
            "{}: {}",
            fixture.name,
            listed.text()
        );
    }
}

#[test]
fn a_dry_run_compares_digests() {
    for fixture in fixtures() {
        fill(&fixture.source, &["same", "differs"]);
        fs::write(fixture.source.join("large"), pattern(3 << 20)).unwrap();
        fixture.copy(0, &[]);
        // With the same size and time, but other bytes.
        fs::write(fixture.target.join("differs"), b"sreffid").unwrap();
        set_time(&fixture.source.join("differs"), 1_000, 0);
        set_time(&fixture.target.join("differs"), 1_000, 0);
        // With another time, and the same bytes.
        set_time(&fixture.source.join("large"), 2_000, 0);
        let before = listing(&fixture.target);
        let outcome = fixture.run(&["--dry-run", "--sync", "digest"]).expect(0);
        assert_eq!(would(&outcome), set(["copy differs"]), "{}", fixture.name);
        let receipt = outcome.json();
        assert_eq!((&receipt["files"], &receipt["skipped"]), (&1.into(), &2.into()), "{}: {receipt}", fixture.name);
        assert!(listing(&fixture.target) == before, "{}", fixture.name);
    }
}
