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
use crate::unfinished_state::{assert_nothing_kept, at_rest, covered, covered_unfinished, journals, written};
use crate::wait::{LONG, skipped, until};

#[test]
fn a_killed_client_resumes_inside_the_file() {
    each(COPY_KINDS, |way| {
        let ends = FileCopy::new(way);
        let there = ends.killed(&[]);
        ends.goes_on(there, &[]);
    });
}

#[test]
fn an_interrupted_client_resumes_inside_the_file() {
    each(COPY_KINDS, |way| {
        let ends = FileCopy::new(way);
        let running = ends.begin(&[]);
        signal(&running.child, Signal::INT);
        running.finish().expect(130);
        let there = ends.rest();
        ends.goes_on(there, &[]);
    });
}

#[test]
fn a_file_is_resumed_again_and_again() {
    let ends = FileCopy::new(CopyKind::Push);
    let mut there = 0;
    for _ in 0..2 {
        let slow = words!["--limit", SLOW];
        let mut running = ends.client.begin([words!["cp"], ends.words(&[]), slow].concat());
        until("more of it is written down", LONG, || covered(&ends.state()) >= there + ENOUGH);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        let now = ends.rest();
        assert!(now >= there + ENOUGH, "{there}, then {now}");
        there = now;
    }
    ends.goes_on(there, &[]);
}

#[test]
fn a_client_goes_on_by_itself_when_its_node_is_back() {
    each([CopyKind::Push, CopyKind::Pull], |way| {
        let mut ends = FileCopy::new(way);
        let running = ends.begin(&[]);
        ends.node.kill();
        until("the client says that it tries again", LONG, || running.err().contains("trying again"));
        until("nobody writes any more", LONG, || at_rest(&ends.state()));
        let there = covered(&ends.state());
        ends.node.restart();
        let receipt = running.finish().expect(0).json();
        ends.assert_arrived(&receipt);
        assert!(there >= ENOUGH && resumed(&receipt) >= there, "{there} were there: {receipt}");
        assert_eq!(count(&receipt, "bytes"), SIZE as u64, "{receipt}");
        assert!(count(&receipt, "resent_bytes") <= IN_FLIGHT, "{receipt}");
    });
}

/// Damages the unfinished file between two attempts; the finished file must be right.
fn with_damaged_part(way: CopyKind, damage: impl Fn(&Path)) {
    let ends = FileCopy::new(way);
    ends.killed(&[]);
    damage(&ends.part());
    ends.completes(&[]);
}

#[test]
fn a_damaged_unfinished_file_is_not_trusted() {
    each([CopyKind::Push, CopyKind::Local], |way| {
        with_damaged_part(way, |part| {
            let file = File::options().read(true).write(true).open(part).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, MIB + 77).unwrap();
            file.write_all_at(&[!byte[0]], MIB + 77).unwrap();
        });
        with_damaged_part(way, |part| File::options().write(true).open(part).unwrap().set_len(MIB + 77).unwrap());
        with_damaged_part(way, |part| File::options().write(true).open(part).unwrap().set_len(0).unwrap());
        // Longer than it may be, with what is not the source's behind its end.
        with_damaged_part(way, |part| {
            File::options().write(true).open(part).unwrap().write_all_at(b"more", SIZE as u64 + MIB).unwrap();
        });
        with_damaged_part(way, |part| fs::remove_file(part).unwrap());
    });
}

/// Changes the source between two attempts: the target becomes the new source, whole.
fn with_changed_source(way: CopyKind, change: impl Fn(&Path)) -> Value {
    let ends = FileCopy::new(way);
    ends.killed(&[]);
    change(&ends.source);
    ends.completes(&[])
}

/// Changes a file and puts its time back.
fn behind_its_time(path: &Path, change: impl FnOnce(&File)) {
    let before = fs::metadata(path).unwrap();
    change(&File::options().write(true).open(path).unwrap());
    set_time(path, before.mtime(), before.mtime_nsec());
    let after = fs::metadata(path).unwrap();
    assert_eq!((after.len(), after.mtime_nsec()), (before.len(), before.mtime_nsec()));
}

#[test]
fn a_source_with_another_size_or_time_is_sent_anew() {
    each([CopyKind::Push, CopyKind::Pull], |way| {
        let other: Vec<u8> = pattern(SIZE).iter().map(|byte| !byte).collect();
        let longer = with_changed_source(way, |path| {
            File::options().write(true).open(path).unwrap().write_all_at(b"more", SIZE as u64).unwrap();
        });
        let shorter = with_changed_source(way, |path| {
            File::options().write(true).open(path).unwrap().set_len(SIZE as u64 - 5 * MIB).unwrap();
        });
        let touched = with_changed_source(way, |path| set_time(path, 1_700_000_000, 1));
        let rewritten = with_changed_source(way, |path| fs::write(path, &other).unwrap());
        // Small files are not gone on with, and must not leave what was begun when they were large.
        let small = with_changed_source(way, |path| fs::write(path, b"small").unwrap());
        for receipt in [longer, shorter, touched, rewritten, small] {
            assert_eq!(resumed(&receipt), 0, "{way:?}: {receipt}");
        }
    });
}

#[test]
fn a_source_that_changed_without_its_time_is_never_mixed() {
    each(COPY_KINDS, |way| {
        let other: Vec<u8> = pattern(SIZE).iter().map(|byte| !byte).collect();
        // All of it; one byte of what had arrived; and what had arrived is a hole now.
        let all = with_changed_source(way, |path| behind_its_time(path, |file| file.write_all_at(&other, 0).unwrap()));
        assert_eq!(resumed(&all), 0, "{way:?}: {all}");
        with_changed_source(way, |path| behind_its_time(path, |file| file.write_all_at(&other[..1], 0).unwrap()));
        with_changed_source(way, |path| {
            behind_its_time(path, |file| {
                file.set_len(0).unwrap();
                file.set_len(SIZE as u64).unwrap();
                file.write_all_at(b"data", 8 * MIB).unwrap();
            });
        });
    });
}

#[test]
fn unverified_bytes_do_not_stay_in_holes() {
    // As a crash may leave it: bytes were written, and not written down, where the source has a hole.
    let ends = FileCopy::empty(CopyKind::Push);
    let source = File::create(&ends.source).unwrap();
    source.write_all_at(&pattern(12 << 20), 0).unwrap();
    source.set_len(32 << 20).unwrap();
    drop(source);
    ends.killed(&[]);
    File::options().write(true).open(ends.part()).unwrap().write_all_at(&pattern(2 << 20), 20 << 20).unwrap();
    ends.completes(&[]);
}

#[test]
fn a_hole_at_the_end_is_kept_without_sending_a_byte() {
    let node = Node::open();
    let bytes = pattern(MIB as usize);
    let begin = || {
        let mut guest = RawClient::at_work(&node, Direction::Push);
        guest.say(&Frame::Entries(vec![dir(1, 0, "t"), file(2, 1, "f", 8 * MIB)]));
        let verdict = guest.hear_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
        (guest, verdict)
    };
    let (guest, _) = begin();
    let mut stream = guest.stream(1);
    let zeros = BlockSum::of_zeros(4 * MIB, false).crc32c;
    let hole = Part { len: 4 * MIB, crc32c: zeros, hole: true, ..part(2, 4 * MIB, &[]) };
    // The end of the file before the front of it, as of two streams one may be ahead.
    stream.send(&[hole], &mut payload(&[])).unwrap();
    stream.send(&[part(2, 0, &bytes)], &mut payload(&bytes)).unwrap();
    until("both are written down", LONG, || covered(&node.state()) == 5 * MIB);
    drop((stream, guest));
    until("the node has let go of it", LONG, || at_rest(&node.state()));
    let (_guest, verdict) = begin();
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
        let ends = FileCopy::new(if at % 2 == 0 { CopyKind::Local } else { CopyKind::Push });
        ends.killed(&[]);
        let journal = journals(&ends.state()).remove(0);
        fs::write(&journal, damage(&fs::read(&journal).unwrap())).unwrap();
        let mut words = ends.words(&["--quiet"]);
        words.insert(0, "cp".into());
        let outcome = ends.client.run(words).expect(0);
        assert_eq!(outcome.err, "", "{what}");
        assert!(fs::read(&ends.source).unwrap() == fs::read(&ends.target).unwrap(), "{what}: it differs");
        assert_nothing_kept(ends.dir(), &ends.state());
    });
}

#[test]
fn a_torn_row_ends_a_journal_and_does_not_void_it() {
    let ends = FileCopy::new(CopyKind::Push);
    ends.killed(&[]);
    let journal = journals(&ends.state()).remove(0);
    let whole = fs::read(&journal).unwrap();
    fs::write(&journal, &whole[..whole.len() - 5]).unwrap();
    let there = covered(&ends.state());
    // The rows that the next attempt adds are found by the one after that.
    let more = {
        let slow = words!["--limit", SLOW];
        let mut running = ends.client.begin([words!["cp"], ends.words(&[]), slow].concat());
        until("more of it is written down", LONG, || covered(&ends.state()) >= there + ENOUGH);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        ends.rest()
    };
    assert!(more >= there + ENOUGH);
    ends.goes_on(more, &[]);
}

#[test]
fn a_file_that_arrived_by_another_copy_leaves_nothing_to_resume() {
    each([CopyKind::Push, CopyKind::Local], |way| {
        let ends = FileCopy::new(way);
        ends.killed(&[]);
        let meta = fs::metadata(&ends.source).unwrap();
        fs::copy(&ends.source, &ends.target).unwrap();
        set_time(&ends.target, meta.mtime(), meta.mtime_nsec());
        let receipt = ends.client.cp(0, ends.words(&[]));
        assert_eq!((&receipt["files"], &receipt["skipped"]), (&0.into(), &1.into()), "{receipt}");
        assert_nothing_kept(ends.dir(), &ends.state());
    });
}

#[test]
fn two_clients_at_one_target_do_not_mix() {
    each([false, true], |kept| {
        let ends = FileCopy::new(CopyKind::Push);
        // The same size and time, other bytes: nothing but the bytes tells the two apart.
        let other = Client::new();
        let bytes: Vec<u8> = pattern(SIZE).iter().map(|byte| !byte).collect();
        let theirs = other.write("s", &bytes);
        [&ends.source, &theirs].into_iter().for_each(|path| set_time(path, 1_700_000_000, 5));
        if kept {
            ends.killed(&[]);
        }
        let slow = words!["--json", "--limit", "32Mbit/s"];
        let first = ends.client.begin([words!["cp"], ends.words(&[]), slow.clone()].concat());
        let second = other.begin([words!["cp", theirs, ends.node.at("data/t/f")], slow].concat());
        for running in [first, second] {
            let receipt = running.finish().expect(0).json();
            assert_eq!(receipt["state"], "done", "{receipt}");
        }
        let there = fs::read(&ends.target).unwrap();
        assert!(there == bytes || there == pattern(SIZE), "neither's bytes");
        assert_nothing_kept(ends.dir(), &ends.state());
    });
}

#[test]
fn a_durable_job_resumes_from_the_flushed_bytes() {
    each(COPY_KINDS, |way| {
        let ends = FileCopy::new(way);
        // Ctrl-C flushes and writes down what waits for that.
        let words = [words!["cp"], ends.words(&["--durable"]), words!["--limit", SLOW]].concat();
        let running = ends.client.begin(words);
        let arrives = |path: &PathBuf| written(path) > 2 * ENOUGH;
        until("much of it has arrived", LONG, || unfinished(ends.dir()).iter().any(arrives));
        signal(&running.child, Signal::INT);
        running.finish().expect(130);
        let there = ends.rest();
        ends.goes_on(there, &["--durable"]);
    });
}

#[test]
fn a_killed_durable_job_resumes_from_the_flushed_bytes() {
    let ends = FileCopy::empty(CopyKind::Push);
    fs::write(&ends.source, pattern(100 << 20)).unwrap();
    let words = [words!["cp"], ends.words(&["--durable"]), words!["--limit", "160Mbit/s"]].concat();
    let mut running = ends.client.begin(words);
    // It is flushed after 64 MiB. Before that nobody waits for anything, behind it the kill must come in time.
    until("the flush is near", LONG, || unfinished(ends.dir()).iter().any(|path| written(path) > 40 * MIB));
    set_limit(&ends.client, "60Mbit/s");
    until("some of it is flushed and written down", LONG, || covered(&ends.state()) > 0);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let there = ends.rest();
    ends.goes_on(there, &["--durable"]);
}

#[test]
fn digests_of_the_whole_file_hold_across_attempts() {
    // The first attempt's journal may lack what the second wants to know.
    let (both, crc) = ("md5,adler32", "crc32c");
    let cases = [
        (CopyKind::Push, both, both),
        (CopyKind::Pull, both, both),
        (CopyKind::Push, crc, both),
        (CopyKind::Local, both, crc),
    ];
    each(cases, |case| {
        let (way, first, second) = case;
        let ends = FileCopy::new(way);
        let there = ends.killed(&["--checksum", first]);
        let receipt = ends.goes_on(there, &["--checksum", second]);
        let made: Vec<&str> =
            receipt["digests"].as_array().unwrap().iter().map(|d| d["algorithm"].as_str().unwrap()).collect();
        assert!(second.split(',').all(|wanted| made.contains(&wanted)), "{receipt}");
    });
}

#[test]
fn a_file_with_holes_is_resumed() {
    each(COPY_KINDS, |way| {
        let ends = FileCopy::empty(way);
        let source = File::create(&ends.source).unwrap();
        source.set_len(200 << 20).unwrap();
        [0, 60 << 20, 150 << 20].into_iter().for_each(|at| source.write_all_at(&pattern(8 << 20), at).unwrap());
        drop(source);
        let there = ends.killed(&[]);
        ends.goes_on(there, &[]);
        let allocated = fs::metadata(&ends.target).unwrap().blocks() * 512;
        assert!(allocated < 40 << 20, "{allocated} bytes are allocated");
    });
}

#[test]
fn a_tree_of_large_files_is_resumed() {
    each(COPY_KINDS, |way| {
        let ends = FileCopy::empty(way);
        fs::create_dir_all(ends.source.join("d")).unwrap();
        for name in ["a", "b", "d/c", "d/e"] {
            fs::write(ends.source.join(name), pattern((4 << 20) + name.len())).unwrap();
        }
        fs::write(ends.source.join("d/small"), b"small").unwrap();
        let mut running = ends.begin(&[]);
        until("a file is in place", LONG, || {
            ["a", "b", "d/c", "d/e"].iter().any(|name| ends.target.join(name).exists())
                && covered_unfinished(&ends.target, &ends.state()) >= MIB
        });
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        until("nobody writes any more", LONG, || at_rest(&ends.state()));
        let there = covered_unfinished(&ends.target, &ends.state());
        let receipt = ends.client.cp(0, ends.words(&[]));
        assert!(there > 0 && resumed(&receipt) >= there, "{there} were there: {receipt}");
        assert!(count(&receipt, "skipped") >= 1, "{receipt}");
        assert_copied(&ends.source, &ends.target);
        assert_nothing_kept(&ends.target, &ends.state());
    });
}

/// Puts another entry in place of the unfinished file, with or without a journal: the copy is right, and the other entry is
/// not written to.
fn with_stranger(journalled: bool, put: impl Fn(&Path, &Path)) {
    let ends = FileCopy::new(CopyKind::Push);
    let victim = ends.node.data("victim");
    fs::write(&victim, b"not to be written to").unwrap();
    ends.killed(&[]);
    let part = ends.part();
    fs::remove_file(&part).unwrap();
    put(&victim, &part);
    if !journalled {
        fs::remove_file(journals(&ends.state()).remove(0)).unwrap();
    }
    let receipt = ends.client.cp(0, ends.words(&[]));
    assert_eq!((&receipt["state"], resumed(&receipt)), (&"done".into(), 0), "{receipt}");
    assert!(fs::read(&ends.source).unwrap() == fs::read(&ends.target).unwrap(), "it differs");
    assert!(fs::symlink_metadata(&ends.target).unwrap().is_file());
    assert_eq!(fs::metadata(&ends.target).unwrap().nlink(), 1);
    assert_eq!(fs::read(&victim).unwrap(), b"not to be written to");
}

#[test]
fn a_foreign_entry_in_place_of_the_unfinished_file_is_not_written_to() {
    each([false, true], |journalled| {
        with_stranger(journalled, |victim, part| fs::hard_link(victim, part).unwrap());
        with_stranger(journalled, |victim, part| symlink(victim, part).unwrap());
        with_stranger(journalled, |_, part| fs::create_dir(part).unwrap());
        if rustix::process::geteuid().is_root() {
            with_stranger(journalled, |_, part| {
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
