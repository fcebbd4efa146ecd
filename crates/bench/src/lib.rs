//! Longhaul compared with every network peer that this machine has, in one interleaved run, so that drift of the machine affects
//! all alike. `make bench` runs it and writes docs/results/speed.md and speed.svg.
//!
//! A [`scenario::Scenario`] is a value: data, medium, targets. A [`contestant::Contestant`] makes the commands that serve
//! and move a scenario's data. [`round`] runs the contestants A B C A B C …, [`account`] counts their cost, [`target`]
//! judges and [`report`] writes the result. Before each run, the source is read (it is hot in the page cache), as much
//! memory as the job writes is touched on the medium (on a virtual machine, first touches of memory cost more than a
//! copy), and `sync` keeps a contestant from paying for another's write-back. Every run writes into a fresh directory.
//! Targets of past runs are emptied, which frees their pages and blocks, and removed only at the very end: some file
//! systems create files many times slower just after others were removed. The copies of the last round are compared with
//! the source.
//!
//! To try it: `make bench BENCH="--scale 0.1 --rounds 3 --only large"`; `--help` lists the rest.
#![allow(clippy::print_stdout, reason = "a program that prints its progress and results")]

pub mod account;
pub mod contestant;
pub mod data;
pub mod eta;
pub mod exercise;
pub mod file_service;
pub mod hub;
pub mod hub_lab;
pub mod job;
pub mod machine;
pub mod micro;
pub mod mirrors;
pub mod namespace;
pub mod node;
pub mod paths;
pub mod pki;
pub mod plan;
pub mod probe;
pub mod process;
pub mod program;
pub mod report;
pub mod round;
pub mod scale;
pub mod scenario;
pub mod scripted_node;
pub mod several;
pub mod site_programs;
pub mod statistics;
pub mod target;
pub mod wan;
pub mod watch_lab;
