//! The picture in ARCHITECTURE.md agrees with the manifests.

use anyhow::Result;

use super::{Breach, Tree};
use crate::picture::{FILE, current};

/// docs/crates.svg is what `cargo xtask picture` draws.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let committed = tree.files.iter().find(|file| file.path == FILE);
    let is_current = committed.is_some_and(|file| file.bytes == current(&tree.root).unwrap_or_default().as_bytes());
    let breach = || Breach::new(FILE, 0, "does not show the crates as they are; run `cargo xtask picture`");
    Ok(if is_current { Vec::new() } else { vec![breach()] })
}
