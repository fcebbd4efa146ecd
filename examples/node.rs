//! A node in twenty lines: it exports one directory, for reading and writing, to every program of this host.
//!
//! `cargo run -p examples --bin node -- DIRECTORY STATE`. The state directory keeps the node's identity and unfinished jobs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use auth::Rights;
use client::StateDir;
use node::{Export, Node, NodeConfig};

#[allow(clippy::print_stdout, reason = "a program prints its address")]
fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1).map(PathBuf::from);
    let directory = words.next().context("no DIRECTORY is given")?;
    let state = words.next().context("no STATE directory is given")?;
    let mut config = NodeConfig::new(([127, 0, 0, 1], 0).into(), StateDir::open(&state)?);
    config.exports = vec![Export::here("data", directory, true)];
    // Without this line, every client needs a key: see `client::StateDir::change_grants`.
    config.anonymous = Some(Rights::Write);
    let node = Node::bind(config)?;
    println!("lh://{}/data", node.address()?);
    Ok(node.run()?)
}
