//! Stock clients and servers beside a node: curl, davix, gfal2, rclone, xrdcp and xrootd's HTTP server, each as its
//! distribution packs it, over real sockets; and FTS's client and Rucio's conveyor at a hub.
//!
//! `make test-interop` runs all; `cargo test -p longhaul --test interop -- curl/put` those whose name contains that;
//! `--list` names them. A complete run that passes is compared with the tables in docs/http-clients.md, docs/fts.md and
//! docs/rucio.md, or writes them where `LONGHAUL_WRITE_DOCS=1`. With `LONGHAUL_INTEROP_AGAINST=stock` a stock xrootd takes the place of
//! the node: that shows that the clients are called correctly, and in which answers that server differs (each case states
//! that).
//!
//! A harness of its own, since servers are started once for all cases and must be ended with them.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]
#![allow(clippy::print_stdout, reason = "a program prints for its caller")]
#![allow(clippy::print_stderr, reason = "what could not be tested is printed on standard error")]

mod case;
mod cases;
mod catalogue;
mod clients;
mod context;
mod endless_server;
mod firefly;
mod fts;
#[path = "../e2e/node.rs"]
#[allow(dead_code, reason = "the end-to-end tests need more of it")]
mod node;
mod pki;
mod runner;
mod table;
mod test_bed;
mod test_nodes;
mod tokens;
#[path = "../e2e/wait.rs"]
#[allow(dead_code, reason = "the end-to-end tests need more of it")]
mod wait;
mod xrootd;

use std::process::ExitCode;

fn main() -> ExitCode {
    let options = runner::Options::read(std::env::args().skip(1));
    let cases: Vec<_> = cases::all().into_iter().filter(|case| options.selects(case)).collect();
    if options.list {
        cases.iter().for_each(|case| println!("{}: test", case.id()));
        return ExitCode::SUCCESS;
    }
    if runner::run(&cases, &options) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
