//! Resume inside a file: bytes that arrived before a kill, a cut or Ctrl-C are not sent again, and are never mixed with
//! bytes of a changed source.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use model::checksum::BlockSum;
use rustix::process::Signal;
use serde_json::Value;
use wire::Frame;
use wire::frame::{Direction, Verdict};
use wire::record::Part;

use crate::client::{Client, unfinished, words};
use crate::control::set_limit;
use crate::file_copy::{COPY_KINDS, CopyKind, ENOUGH, FileCopy, IN_FLIGHT, MIB, SIZE, SLOW, count, each, resumed};
use crate::node::{Node, signal};
use crate::raw_client::{RawClient, dir, file, part, payload};
use crate::tree::{assert_copied, pattern, set_time};
use crate::unfinished_state::{assert_nothing_kept, covered, covered_unfinished, has_no_writer, journals, written};
use crate::wait::{LONG, skipped, until};

#[test]
fn a_killed_client_resumes_inside_the_file() {
    each(COPY_KINDS, |kind| {
        let copy = FileCopy::new(kind);
        let journalled = copy.run_killed(&[]);
        copy.assert_resumes(journalled, &[]);
    });
}

#[test]
fn an_interrupted_client_resumes_inside_the_file() {
    each(COPY_KINDS, |kind| {
        let copy = FileCopy::new(kind);
        let running = copy.begin(&[]);
        signal(&running.child, Signal::INT);
        running.finish().expect(130);
        let journalled = copy.settled_bytes();
        copy.assert_resumes(journalled, &[]);
    });
}

#[test]
fn a_file_is_resumed_again_and_again() {
    let copy = FileCopy::new(CopyKind::Push);
    let mut journalled = 0;
    for _ in 0..2 {
        let slow = words!["--limit", SLOW];
        let mut running = copy.client.begin([words!["cp"], copy.words(&[]), slow].concat());
        until("the journal has grown", LONG, || covered(&copy.state()) >= journalled + ENOUGH);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        let now = copy.settled_bytes();
        assert!(now >= journalled + ENOUGH, "{journalled}, then {now}");
        journalled = now;
    }
    copy.assert_resumes(journalled, &[]);
}

#[test]
fn a_client_resumes_when_its_node_is_back() {
    each([CopyKind::Push, CopyKind::Pull], |kind| {
        let mut copy = FileCopy::new(kind);
        let running = copy.begin(&[]);
        copy.node.kill();
        until("the client reports that it tries again", LONG, || running.err().contains("trying again"));
        until("no process writes any more", LONG, || has_no_writer(&copy.state()));
        let journalled = covered(&copy.state());
        copy.node.restart();
        let receipt = running.finish().expect(0).json();
        copy.assert_arrived(&receipt);
        assert!(journalled >= ENOUGH && resumed(&receipt) >= journalled, "{journalled} were in the journal: {receipt}");
        assert_eq!(count(&receipt, "bytes"), SIZE as u64, "{receipt}");
        assert!(count(&receipt, "resent_bytes") <= IN_FLIGHT, "{receipt}");
    });
}

/// Damages the unfinished file between two attempts; the finished file must be right.
fn with_damaged_part(kind: CopyKind, damage: impl Fn(&Path)) {
    let copy = FileCopy::new(kind);
    copy.run_killed(&[]);
    damage(&copy.part());
    copy.assert_completes(&[]);
}

#[test]
fn a_damaged_unfinished_file_is_not_trusted() {
    each([CopyKind::Push, CopyKind::Local], |kind| {
        with_damaged_part(kind, |part| {
            let file = File::options().read(true).write(true).open(part).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, MIB + 77).unwrap();
            file.write_all_at(&[!byte[0]], MIB + 77).unwrap();
        });
        with_damaged_part(kind, |part| File::options().write(true).open(part).unwrap().set_len(MIB + 77).unwrap());
        with_damaged_part(kind, |part| File::options().write(true).open(part).unwrap().set_len(0).unwrap());
        // Longer than the source: foreign bytes follow its end.
        with_damaged_part(kind, |part| {
            File::options().write(true).open(part).unwrap().write_all_at(b"more", SIZE as u64 + MIB).unwrap();
        });
        with_damaged_part(kind, |part| fs::remove_file(part).unwrap());
    });
}

/// Changes the source between two attempts: the target becomes the new source, whole.
fn with_changed_source(kind: CopyKind, change: impl Fn(&Path)) -> Value {
    let copy = FileCopy::new(kind);
    copy.run_killed(&[]);
    change(&copy.source);
    copy.assert_completes(&[])
}

/// Changes a file and puts its time back.
fn keeping_its_mtime(path: &Path, change: impl FnOnce(&File)) {
    let before = fs::metadata(path).unwrap();
    change(&File::options().write(true).open(path).unwrap());
    set_time(path, before.mtime(), before.mtime_nsec());
    let after = fs::metadata(path).unwrap();
    assert_eq!((after.len(), after.mtime_nsec()), (before.len(), before.mtime_nsec()));
}

#[test]
fn a_source_with_another_size_or_time_is_sent_anew() {
    each([CopyKind::Push, CopyKind::Pull], |kind| {
        let other: Vec<u8> = pattern(SIZE).iter().map(|byte| !byte).collect();
        let longer = with_changed_source(kind, |path| {
            File::options().write(true).open(path).unwrap().write_all_at(b"more", SIZE as u64).unwrap();
        });
        let shorter = with_changed_source(kind, |path| {
            File::options().write(true).open(path).unwrap().set_len(SIZE as u64 - 5 * MIB).unwrap();
        });
        let touched = with_changed_source(kind, |path| set_time(path, 1_700_000_000, 1));
        let rewritten = with_changed_source(kind, |path| fs::write(path, &other).unwrap());
        // A small file is not resumed; the unfinished file of the large one must not stay.
        let small = with_changed_source(kind, |path| fs::write(path, b"small").unwrap());
        for receipt in [longer, shorter, touched, rewritten, small] {
            assert_eq!(resumed(&receipt), 0, "{kind:?}: {receipt}");
        }
    });
}

#[test]
fn a_source_that_changed_without_its_time_is_never_mixed() {
    each(COPY_KINDS, |kind| {
        let other: Vec<u8> = pattern(SIZE).iter().map(|byte| !byte).collect();
        // The whole file differs; one byte that had arrived differs; what had arrived is a hole now.
        let all =
            with_changed_source(kind, |path| keeping_its_mtime(path, |file| file.write_all_at(&other, 0).unwrap()));
        assert_eq!(resumed(&all), 0, "{kind:?}: {all}");
        with_changed_source(kind, |path| keeping_its_mtime(path, |file| file.write_all_at(&other[..1], 0).unwrap()));
        with_changed_source(kind, |path| {
            keeping_its_mtime(path, |file| {
                file.set_len(0).unwrap();
                file.set_len(SIZE as u64).unwrap();
                file.write_all_at(b"data", 8 * MIB).unwrap();
            });
        });
    });
}

#[test]
fn unverified_bytes_do_not_stay_in_holes() {
    // A crash can leave bytes that no journal row covers, at a place where the source has a hole.
    let copy = FileCopy::empty(CopyKind::Push);
    let source = File::create(&copy.source).unwrap();
    source.write_all_at(&pattern(12 << 20), 0).unwrap();
    source.set_len(32 << 20).unwrap();
    drop(source);
    copy.run_killed(&[]);
    File::options().write(true).open(copy.part()).unwrap().write_all_at(&pattern(2 << 20), 20 << 20).unwrap();
    copy.assert_completes(&[]);
}

#[test]
fn a_hole_at_the_end_is_kept_without_sending_a_byte() {
    let node = Node::open();
    let bytes = pattern(MIB as usize);
    let begin = || {
        let mut raw_client = RawClient::with_job(&node, Direction::Push);
        raw_client.send(&Frame::Entries(vec![dir(1, 0, "t"), file(2, 1, "f", 8 * MIB)]));
        let verdict = raw_client.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
        (raw_client, verdict)
    };
    let (raw_client, _) = begin();
    let mut stream = raw_client.stream(1);
    let zeros = BlockSum::of_zeros(4 * MIB, false).crc32c;
    let hole = Part { len: 4 * MIB, crc32c: zeros, hole: true, ..part(2, 4 * MIB, &[]) };
    // The end of the file is sent before its front: of two streams, one may be ahead.
    stream.send(&[hole], &mut payload(&[])).unwrap();
    stream.send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
    until("both are in the journal", LONG, || covered(&node.state()) == 5 * MIB);
    drop((stream, raw_client));
    until("the node has closed the file", LONG, || has_no_writer(&node.state()));
    let (_raw_client, verdict) = begin();
    let Frame::Verdicts(verdicts) = verdict else { unreachable!() };
    let [(2, Verdict::WantRest(claims))] = &verdicts[..] else { panic!("{verdicts:?}") };
    let claimed: Vec<_> = claims.iter().map(|claim| (claim.offset, claim.len)).collect();
    assert_eq!(claimed, [(0, MIB), (4 * MIB, 4 * MIB)]);
}

type Damage<'a> = &'a (dyn Fn(&[u8]) -> Vec<u8> + Sync);

#[test]
fn a_damaged_journal_costs_the_resume_and_nothing_else() {
    let half = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
    let damages: [(&str, Damage<'_>); 7] = [
        ("empty", &|_| Vec::new()),
        ("garbage", &|bytes| pattern(bytes.len())),
        ("half of its head", &|bytes| bytes[..30].to_vec()),
        ("another version", &|bytes| [b"longhaul journal 9", &bytes[18..]].concat()),
        ("a torn row", &|bytes| bytes[..bytes.len() - 5].to_vec()),
        ("half of it", &half),
        ("rows of garbage", &|bytes| [bytes, &pattern(3_200)].concat()),
    ];
    each(0..damages.len(), |at| {
        let (what, damage) = damages[at];
        let copy = FileCopy::new(if at % 2 == 0 { CopyKind::Local } else { CopyKind::Push });
        copy.run_killed(&[]);
        let journal = journals(&copy.state()).remove(0);
        fs::write(&journal, damage(&fs::read(&journal).unwrap())).unwrap();
        let mut words = copy.words(&["--quiet"]);
        words.insert(0, "cp".into());
        let outcome = copy.client.run(words).expect(0);
        assert_eq!(outcome.err, "", "{what}");
        assert!(fs::read(&copy.source).unwrap() == fs::read(&copy.target).unwrap(), "{what}: it differs");
        assert_nothing_kept(copy.dir(), &copy.state());
    });
}

#[test]
fn a_torn_row_ends_a_journal_and_does_not_void_it() {
    let copy = FileCopy::new(CopyKind::Push);
    copy.run_killed(&[]);
    let journal = journals(&copy.state()).remove(0);
    let whole = fs::read(&journal).unwrap();
    fs::write(&journal, &whole[..whole.len() - 5]).unwrap();
    let journalled = covered(&copy.state());
    // The rows that the next attempt adds are found by the one after that.
    let more = {
        let slow = words!["--limit", SLOW];
        let mut running = copy.client.begin([words!["cp"], copy.words(&[]), slow].concat());
        until("the journal has grown", LONG, || covered(&copy.state()) >= journalled + ENOUGH);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        copy.settled_bytes()
    };
    assert!(more >= journalled + ENOUGH);
    copy.assert_resumes(more, &[]);
}

#[test]
fn a_file_that_arrived_by_another_copy_leaves_nothing_to_resume() {
    each([CopyKind::Push, CopyKind::Local], |kind| {
        let copy = FileCopy::new(kind);
        copy.run_killed(&[]);
        let meta = fs::metadata(&copy.source).unwrap();
        fs::copy(&copy.source, &copy.target).unwrap();
        set_time(&copy.target, meta.mtime(), meta.mtime_nsec());
        let receipt = copy.client.cp(0, copy.words(&[]));
        assert_eq!((&receipt["files"], &receipt["skipped"]), (&0.into(), &1.into()), "{receipt}");
        assert_nothing_kept(copy.dir(), &copy.state());
    });
}

#[test]
fn files_of_two_clients_at_one_target_do_not_mix() {
    each([false, true], |has_unfinished| {
        let copy = FileCopy::new(CopyKind::Push);
        // The two sources differ in their bytes only; size and time are equal.
        let other = Client::new();
        let bytes: Vec<u8> = pattern(SIZE).iter().map(|byte| !byte).collect();
        let theirs = other.write("s", &bytes);
        [&copy.source, &theirs].into_iter().for_each(|path| set_time(path, 1_700_000_000, 5));
        if has_unfinished {
            copy.run_killed(&[]);
        }
        let slow = words!["--json", "--limit", "32Mbit/s"];
        let first = copy.client.begin([words!["cp"], copy.words(&[]), slow.clone()].concat());
        let second = other.begin([words!["cp", theirs, copy.node.at("data/t/f")], slow].concat());
        for running in [first, second] {
            let receipt = running.finish().expect(0).json();
            assert_eq!(receipt["state"], "done", "{receipt}");
        }
        let arrived = fs::read(&copy.target).unwrap();
        assert!(arrived == bytes || arrived == pattern(SIZE), "neither's bytes");
        assert_nothing_kept(copy.dir(), &copy.state());
    });
}

#[test]
fn a_durable_job_resumes_from_the_flushed_bytes() {
    each(COPY_KINDS, |kind| {
        let copy = FileCopy::new(kind);
        // Ctrl-C flushes the file and writes the journal.
        let words = [words!["cp"], copy.words(&["--durable"]), words!["--limit", SLOW]].concat();
        let running = copy.client.begin(words);
        let arrives = |path: &PathBuf| written(path) > 2 * ENOUGH;
        until("much of it has arrived", LONG, || unfinished(copy.dir()).iter().any(arrives));
        signal(&running.child, Signal::INT);
        running.finish().expect(130);
        let journalled = copy.settled_bytes();
        copy.assert_resumes(journalled, &["--durable"]);
    });
}

#[test]
fn a_killed_durable_job_resumes_from_the_flushed_bytes() {
    let copy = FileCopy::empty(CopyKind::Push);
    fs::write(&copy.source, pattern(100 << 20)).unwrap();
    let words = [words!["cp"], copy.words(&["--durable"]), words!["--limit", "160Mbit/s"]].concat();
    let mut running = copy.client.begin(words);
    // The receiver flushes after 64 MiB. The copy runs fast until then; after it, the kill must be in time.
    until("the flush is near", LONG, || unfinished(copy.dir()).iter().any(|path| written(path) > 40 * MIB));
    set_limit(&copy.client, "60Mbit/s");
    until("some of it is flushed and in the journal", LONG, || covered(&copy.state()) > 0);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let journalled = copy.settled_bytes();
    copy.assert_resumes(journalled, &["--durable"]);
}

#[test]
fn digests_of_the_whole_file_hold_across_attempts() {
    // The first attempt's journal may lack a digest that the second attempt asks for.
    let (both, crc) = ("md5,adler32", "crc32c");
    let cases = [
        (CopyKind::Push, both, both),
        (CopyKind::Pull, both, both),
        (CopyKind::Push, crc, both),
        (CopyKind::Local, both, crc),
    ];
    each(cases, |case| {
        let (kind, first, second) = case;
        let copy = FileCopy::new(kind);
        let journalled = copy.run_killed(&["--checksum", first]);
        let receipt = copy.assert_resumes(journalled, &["--checksum", second]);
        let made: Vec<&str> =
            receipt["digests"].as_array().unwrap().iter().map(|d| d["algorithm"].as_str().unwrap()).collect();
        assert!(second.split(',').all(|wanted| made.contains(&wanted)), "{receipt}");
    });
}

#[test]
fn a_file_with_holes_is_resumed() {
    each(COPY_KINDS, |kind| {
        let copy = FileCopy::empty(kind);
        let source = File::create(&copy.source).unwrap();
        source.set_len(200 << 20).unwrap();
        [0, 60 << 20, 150 << 20].into_iter().for_each(|at| source.write_all_at(&pattern(8 << 20), at).unwrap());
        drop(source);
        let journalled = copy.run_killed(&[]);
        copy.assert_resumes(journalled, &[]);
        let allocated = fs::metadata(&copy.target).unwrap().blocks() * 512;
        assert!(allocated < 40 << 20, "{allocated} bytes are allocated");
    });
}

#[test]
fn a_tree_of_large_files_is_resumed() {
    each(COPY_KINDS, |kind| {
        let copy = FileCopy::empty(kind);
        fs::create_dir_all(copy.source.join("d")).unwrap();
        for name in ["a", "b", "d/c", "d/e"] {
            fs::write(copy.source.join(name), pattern((4 << 20) + name.len())).unwrap();
        }
        fs::write(copy.source.join("d/small"), b"small").unwrap();
        let mut running = copy.begin(&[]);
        until("a file is in place", LONG, || {
            ["a", "b", "d/c", "d/e"].iter().any(|name| copy.target.join(name).exists())
                && covered_unfinished(&copy.target, &copy.state()) >= MIB
        });
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        until("no process writes any more", LONG, || has_no_writer(&copy.state()));
        let journalled = covered_unfinished(&copy.target, &copy.state());
        let receipt = copy.client.cp(0, copy.words(&[]));
        assert!(journalled > 0 && resumed(&receipt) >= journalled, "{journalled} were in the journal: {receipt}");
        assert!(count(&receipt, "skipped") >= 1, "{receipt}");
        assert_copied(&copy.source, &copy.target);
        assert_nothing_kept(&copy.target, &copy.state());
    });
}

/// Puts another entry in place of the unfinished file, with or without a journal: the copy is right, and the other entry is
/// not written to.
fn with_foreign_entry(has_journal: bool, put: impl Fn(&Path, &Path)) {
    let copy = FileCopy::new(CopyKind::Push);
    let victim = copy.node.data("victim");
    fs::write(&victim, b"not to be written to").unwrap();
    copy.run_killed(&[]);
    let part = copy.part();
    fs::remove_file(&part).unwrap();
    put(&victim, &part);
    if !has_journal {
        fs::remove_file(journals(&copy.state()).remove(0)).unwrap();
    }
    let receipt = copy.client.cp(0, copy.words(&[]));
    assert_eq!((&receipt["state"], resumed(&receipt)), (&"done".into(), 0), "{receipt}");
    assert!(fs::read(&copy.source).unwrap() == fs::read(&copy.target).unwrap(), "it differs");
    assert!(fs::symlink_metadata(&copy.target).unwrap().is_file());
    assert_eq!(fs::metadata(&copy.target).unwrap().nlink(), 1);
    assert_eq!(fs::read(&victim).unwrap(), b"not to be written to");
}

#[test]
fn a_foreign_entry_in_place_of_the_unfinished_file_is_not_written_to() {
    each([false, true], |has_journal| {
        with_foreign_entry(has_journal, |victim, part| fs::hard_link(victim, part).unwrap());
        with_foreign_entry(has_journal, |victim, part| symlink(victim, part).unwrap());
        with_foreign_entry(has_journal, |_, part| fs::create_dir(part).unwrap());
        if rustix::process::geteuid().is_root() {
            with_foreign_entry(has_journal, |_, part| {
                fs::write(part, pattern(SIZE)).unwrap();
                std::os::unix::fs::chown(part, Some(65_534), Some(65_534)).unwrap();
            });
        } else {
            skipped(
                "resume::a_foreign_entry_in_place_of_the_unfinished_file_is_not_written_to",
                "only root can give away",
            );
        }
    });
}
