//! The end of labs: by command, by Ctrl-C, by a kill; and what is left afterwards.

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{Labs, PAIR, PRINT_PID_AND_SLEEP, is_running, lab_words, pid_from, wait_until_ended};
use crate::client::words;
use crate::node::LONGHAUL;
use crate::wait::{LONG, until};

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn a_lab_name_is_used_once() {
    let Some(labs) = Labs::of("a_lab_name_is_used_once") else { return };
    let file = labs.file("pair", PAIR);
    labs.run(words!["up", &file]).expect(0);
    let pid = labs.process("pair").to_string();
    for words in [words!["up", &file], words!["run", &file, "--", "true"], words!["check", &file]] {
        labs.run(words).refused(1, &["pair is up already", &pid, "longhaul lab down", "--lab OTHER"]);
    }
    assert_eq!(labs.status()["pid"].to_string(), pid);
}

#[test]
fn down_ends_the_processes_at_the_sites() {
    let Some(labs) = Labs::of("down_ends_the_processes_at_the_sites") else { return };
    labs.run(words!["up", labs.file("pair", PAIR)]).expect(0);
    let polite = labs.begin(words!["exec", "left", "--", "sh", "-c", PRINT_PID_AND_SLEEP]);
    let stubborn = labs.begin(words!["exec", "right", "--", "sh", "-c", "trap '' TERM; echo $$; exec sleep 600"]);
    let (_, pid) = (pid_from(&polite), pid_from(&stubborn));
    let text = labs.run(words!["down"]).expect(0).text();
    assert_eq!(text, "lab pair is down; 2 processes at its sites were ended\n");
    assert_eq!(polite.finish().code, 143);
    assert_eq!(stubborn.finish().code, 137);
    assert!(!is_running(pid) && labs.is_clean());
    labs.run(words!["down"]).refused(1, &["no lab is up"]);
    labs.run(words!["down", "pair"]).refused(1, &["no lab pair is up", "longhaul lab status"]);
}

#[test]
fn ctrl_c_ends_the_command_and_the_lab() {
    let Some(labs) = Labs::of("ctrl_c_ends_the_command_and_the_lab") else { return };
    let words =
        lab_words(words!["run", labs.file("pair", PAIR), "--in", "left", "--", "sh", "-c", PRINT_PID_AND_SLEEP]);
    let mut command = labs.client.command(words);
    command.process_group(0);
    let running = labs.client.start(command);
    let (sleeper, process) = (pid_from(&running), labs.process("pair"));
    // As a terminal does: to all of its foreground.
    kill_process_group(Pid::from_child(&running.child), Signal::INT).unwrap();
    running.finish().expect(130);
    assert!(!is_running(sleeper) && labs.is_clean());
    wait_until_ended("the lab's process has ended", process);
}

#[test]
fn a_killed_run_ends_its_lab() {
    let Some(labs) = Labs::of("a_killed_run_ends_its_lab") else { return };
    for signal in [Signal::KILL, Signal::TERM] {
        let running =
            labs.begin(words!["run", labs.file("pair", PAIR), "--in", "left", "--", "sh", "-c", PRINT_PID_AND_SLEEP]);
        let (sleeper, process) = (pid_from(&running), labs.process("pair"));
        send(running.child.id(), signal);
        wait_until_ended("the lab's process has ended", process);
        wait_until_ended("so has the command", sleeper);
        until("nothing is left", LONG, || labs.is_clean());
    }
}

#[test]
fn a_lab_clears_the_remains_of_a_killed_one() {
    let Some(labs) = Labs::of("a_lab_clears_the_remains_of_a_killed_one") else { return };
    let file = labs.file("pair", PAIR);
    labs.run(words!["up", &file]).expect(0);
    let stray = labs.begin(words!["exec", "left", "--", "sh", "-c", PRINT_PID_AND_SLEEP]);
    pid_from(&stray);
    let process = labs.process("pair");
    send(process, Signal::KILL);
    wait_until_ended("the lab's process has ended", process);
    labs.run(words!["exec", "left", "--lab", "pair", "--", "true"]).refused(1, &["no lab pair is up"]);
    assert!(labs.run(words!["status"]).expect(0).text().starts_with("no lab is up"));

    labs.run(words!["up", &file]).expect(0);
    assert_eq!(stray.finish().code, 143);
    assert_ne!(labs.process("pair"), process);
    labs.run(words!["exec", "left", "--", "true"]).expect(0);

    let stray = labs.begin(words!["exec", "left", "--", "sh", "-c", PRINT_PID_AND_SLEEP]);
    pid_from(&stray);
    send(labs.process("pair"), Signal::KILL);
    let text = labs.run(words!["down", "pair"]).expect(0).text();
    assert!(text.starts_with("lab pair "), "{text}");
    assert_eq!(stray.finish().code, 143);
    assert!(labs.is_clean());
}

#[test]
fn a_relative_state_directory_belongs_to_the_working_directory() {
    let Some(labs) = Labs::of("a_relative_state_directory_belongs_to_the_working_directory") else { return };
    let file = labs.file("pair", PAIR);
    // Two directories of one name below two others: the remains of one lab are not the other's.
    let [one, other] = ["one", "other"].map(|dir| {
        std::fs::create_dir(labs.client.path(dir)).unwrap();
        labs.client.path(dir)
    });
    let begin_in = |dir: &std::path::Path, words| {
        let mut command = labs.client.command(lab_words(words));
        command.current_dir(dir).env("LONGHAUL_STATE", "state").env_remove("LONGHAUL_LAB");
        labs.client.start(command)
    };
    let line = format!("echo $$; cd /; {LONGHAUL} lab exec right -- uname -n; sleep 600 & wait");
    let running = begin_in(&one, words!["run", &file, "--in", "left", "--", "sh", "-c", line]);
    until("it found its lab from another directory", LONG, || running.out().lines().nth(1) == Some("right"));
    begin_in(&other, words!["run", &file, "--", "true"]).finish().expect(0);
    assert!(is_running(pid_from(&running)));
    send(pid_from(&running), Signal::TERM);
    running.finish().expect(143);

    let mut command = labs.client.command(lab_words(words!["up", &file]));
    command.env("LONGHAUL_STATE", labs.client.path(&"long".repeat(30)));
    labs.client.start(command).finish().refused(6, &["107 bytes", "shorter --state"]);
}

#[test]
fn ctrl_c_ends_a_check() {
    let Some(labs) = Labs::of("ctrl_c_ends_a_check") else { return };
    let running = labs.begin(words!["check", labs.file("pair", PAIR)]);
    until("it has begun", LONG, || !running.out().is_empty());
    send(running.child.id(), Signal::INT);
    running.finish().expect(130);
    assert!(labs.is_clean());
}
