//! The floors of the crates: a crate links only crates of lower floors.

use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

use super::{Breach, Tree};

/// The floors, lowest first. A new crate is added here.
pub const FLOORS: [&[&str]; 7] = [
    &["model"],
    &["sys"],
    &["wire", "store", "auth", "web", "sched", "pilot", "replicas", "scenario", "predict", "xroot"],
    &["authn", "engine", "remote", "nodeapi", "hubapi", "database", "serve", "probe", "tune", "lab", "plan", "report"],
    &["client", "hub", "watch"],
    &["node", "exercise"],
    &["longhaul", "bench", "xtask", "examples"],
];

/// Dependencies that the floors permit but the design forbids, directly or through other crates: who links, what, and why not.
const FORBIDDEN: [(&str, &str, &str); 3] = [
    ("hub", "engine", "the hub speaks HTTP to nodes"),
    ("watch", "engine", "the watch orders tests by the API of nodes"),
    ("lab", "engine", "the lab runs the binaries"),
];

/// A dependency of one crate of the workspace on another.
#[derive(Clone, Debug)]
pub struct Arrow {
    /// The crate that links.
    pub from: String,
    /// The crate that is linked.
    pub to: String,
    /// Whether it is for tests only.
    pub dev: bool,
}

/// All arrows point down.
///
/// # Errors
/// cargo cannot read the workspace.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let (members, arrows) = read(&tree.root)?;
    Ok(judge(&members, &arrows))
}

/// The crates of the workspace and their dependencies on each other, from their manifests.
///
/// # Errors
/// cargo cannot read the workspace.
pub fn read(root: &Path) -> Result<(Vec<String>, Vec<Arrow>)> {
    let mut command = MetadataCommand::new();
    command.manifest_path(root.join("Cargo.toml")).no_deps().other_options(["--offline".to_string()]);
    let metadata = command.exec().context("cargo metadata failed")?;
    let members: Vec<String> = metadata.workspace_packages().iter().map(|p| p.name.to_string()).collect();
    let mut arrows = Vec::new();
    for package in metadata.workspace_packages() {
        for dependency in package.dependencies.iter().filter(|d| d.path.is_some()) {
            let dev = dependency.kind == DependencyKind::Development;
            arrows.push(Arrow { from: package.name.to_string(), to: dependency.name.clone(), dev });
        }
    }
    Ok((members, arrows))
}

fn floor(crate_name: &str) -> Option<usize> {
    FLOORS.iter().position(|crates| crates.contains(&crate_name))
}

fn judge(members: &[String], arrows: &[Arrow]) -> Vec<Breach> {
    let manifest = |crate_name: &str| format!("crates/{crate_name}/Cargo.toml");
    let mut breaches = Vec::new();
    for crate_name in members.iter().filter(|crate_name| floor(crate_name).is_none()) {
        let what = format!("`{crate_name}` is on no floor; add it to FLOORS in crates/xtask/src/tidy/arrows.rs");
        breaches.push(Breach::new(&manifest(crate_name), 0, what));
    }
    for arrow in arrows {
        // A crate on no floor was reported above, or does not belong to the workspace.
        let (Some(from), Some(to)) = (floor(&arrow.from), floor(&arrow.to)) else { continue };
        let Arrow { from: linking, to: linked, dev } = arrow;
        let what = if *dev && from == 0 && to > 0 {
            format!("`{linking}` is on the ground floor: even its tests link no crate above it ({linked})")
        } else if !dev && to >= from {
            format!(
                "`{linking}` (floor {from}) links `{linked}` (floor {to}), which is not below it: move what both need to a lower floor"
            )
        } else {
            continue;
        };
        breaches.push(Breach::new(&manifest(linking), 0, what));
    }
    for (from, to, why) in FORBIDDEN {
        if reaches(arrows, from, to) {
            breaches.push(Breach::new(
                &manifest(from),
                0,
                format!("`{from}` links `{to}`, which it must never: {why}"),
            ));
        }
    }
    breaches
}

/// Whether a crate links another, directly or through others. Also ends if dependencies form a ring.
pub fn reaches(arrows: &[Arrow], from: &str, to: &str) -> bool {
    let mut seen = vec![from];
    let mut next = 0;
    while let Some(crate_name) = seen.get(next).copied() {
        for arrow in arrows.iter().filter(|arrow| !arrow.dev && arrow.from == crate_name) {
            if !seen.contains(&arrow.to.as_str()) {
                seen.push(&arrow.to);
            }
        }
        next += 1;
    }
    seen[1..].contains(&to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(arrows: &[(&str, &str, bool)]) -> usize {
        let arrow = |(from, to, dev): &(&str, &str, bool)| Arrow { from: (*from).into(), to: (*to).into(), dev: *dev };
        judge(&[], &arrows.iter().map(arrow).collect::<Vec<_>>()).len()
    }

    #[test]
    fn arrows_are_judged() {
        assert_eq!(faults(&[("wire", "model", false), ("node", "wire", false), ("longhaul", "model", false)]), 0);
        assert_eq!(faults(&[("model", "wire", false)]), 1, "up");
        assert_eq!(faults(&[("wire", "store", false)]), 1, "sideways");
        assert_eq!(faults(&[("bench", "longhaul", false)]), 1, "between programs");
        assert_eq!(faults(&[("wire", "engine", true)]), 0, "tests may link upward");
        assert_eq!(faults(&[("model", "wire", true), ("sys", "wire", true)]), 1, "but from the ground floor");
        assert_eq!(faults(&[("hub", "engine", false)]), 1, "allowed by the floors, never by design");
        assert_eq!(faults(&[("hub", "node", true)]), 0);
        // Sideways from `lab` to `probe`, and through it to the engine; a ring does not hang.
        assert_eq!(faults(&[("lab", "probe", false), ("probe", "engine", false), ("engine", "lab", false)]), 4);
        assert_eq!(judge(&["annex".into()], &[]).len(), 1);
    }
}
