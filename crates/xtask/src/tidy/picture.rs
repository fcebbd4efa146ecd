//! The picture in ARCHITECTURE.md is that of the manifests.

use anyhow::Result;

use super::{Breach, Tree};
use crate::picture::{FILE, drawn};

/// docs/crates.svg is what `cargo xtask picture` draws.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let committed = tree.papers.iter().find(|paper| paper.path == FILE);
    let is_current = committed.is_some_and(|paper| paper.bytes == drawn(&tree.root).unwrap_or_default().as_bytes());
    let breach = || Breach::new(FILE, 0, "does not show the crates as they are; `cargo xtask picture` draws it anew");
    Ok(if is_current { Vec::new() } else { vec![breach()] })
}
