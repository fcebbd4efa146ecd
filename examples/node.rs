//! A node in twenty lines: offers one directory, read and write, to whoever can reach this port of the loopback interface.
//!
//! `cargo run -p examples --bin node -- DIRECTORY STATE`. The state directory keeps the node's identity and unfinished jobs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use auth::Rights;
use client::StateDir;
use node::{Export, Node, NodeConfig};

#[allow(clippy::print_stdout, reason = "a program talks to whoever started it")]
fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1).map(PathBuf::from);
    let (directory, state) =
        (words.next().context("which directory?")?, words.next().context("which state directory?")?);
    let mut config = NodeConfig::new(([127, 0, 0, 1], 0).into(), StateDir::open(&state)?);
    config.exports = vec![Export::here("data", directory, true)];
    // Without this line everybody needs a key: see `node::StateDir::change_grants`.
    config.anonymous = Some(Rights::Write);
    let node = Node::bind(config)?;
    println!("lh://{}/data", node.address()?);
    Ok(node.run()?)
}
