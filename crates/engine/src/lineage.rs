//! Whether a job's source and its target are parts of one tree, so that a copy would run into itself, or `--delete` remove what is being
//! copied.
//!
//! The two ends may be processes of one host, reach it by different names, or be half the world apart. So the sender sends a token for
//! each source and for all directories above it, a hash of the host's boot id, the device and the inode. The receiver compares the tokens
//! with those of its own directories; a token does not reveal device and inode. A store without inodes has no tokens.

use std::sync::LazyLock;

use aws_lc_rs::digest::{Context, SHA256};
use store::{Lineage, Store};
use wire::frame::{JobName, PLACE_TOKEN_BYTES, PlaceToken};
use wire::receiver::Target;

use crate::scan::SourceRoot;

/// The boot id, the same for all processes of a kernel, also in containers; empty where the kernel gives none.
static BOOT: LazyLock<String> = LazyLock::new(|| {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
});

/// The tokens of one source or target.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tokens {
    /// The entry itself, where it exists.
    itself: Option<PlaceToken>,
    /// The directories above it, innermost first.
    above: Vec<PlaceToken>,
}

pub(crate) fn token(job: &JobName, (device, inode): (u64, u64)) -> PlaceToken {
    let mut hash = Context::new(&SHA256);
    hash.update(b"longhaul place");
    hash.update(job);
    hash.update(BOOT.as_bytes());
    hash.update(&device.to_be_bytes());
    hash.update(&inode.to_be_bytes());
    let mut token = [0; PLACE_TOKEN_BYTES];
    token.copy_from_slice(&hash.finish().as_ref()[..PLACE_TOKEN_BYTES]);
    token
}

fn tokens(job: &JobName, lineage: &Lineage) -> Tokens {
    let of = |identity: &(u64, u64)| token(job, *identity);
    Tokens { itself: lineage.itself.as_ref().map(of), above: lineage.above.iter().map(of).collect() }
}

/// The tokens of each source: its own, then those of the directories above it. Empty where the kernel gives no boot id.
pub(crate) fn of_sources(job: &JobName, roots: &[SourceRoot]) -> Vec<Vec<PlaceToken>> {
    if BOOT.is_empty() {
        return Vec::new();
    }
    let of_source = |root: &SourceRoot| {
        let Tokens { itself, above } = tokens(job, &root.store.lineage(&root.path));
        itself.into_iter().chain(above).collect()
    };
    roots.iter().map(of_source).collect()
}

/// Which of source and target lies within the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nested {
    /// The target lies below the source.
    TargetWithin,
    /// The source lies below the target.
    SourceWithin,
}

/// Whether a source, given by its sender's tokens, and a target are nested.
pub(crate) fn nested(job: &JobName, source: &[PlaceToken], store: &dyn Store, target: &Target) -> Option<Nested> {
    let (itself, above) = source.split_first()?;
    let there = tokens(job, &store.lineage(&target.path));
    // Copied into the target T, a source S becomes T/S. Where T is S itself, T/S lies within S.
    let is_in_itself = (target.into || above.is_empty()) && there.itself == Some(*itself);
    if there.above.contains(itself) || is_in_itself {
        return Some(Nested::TargetWithin);
    }
    // A source that is copied into the directory that it lies in is copied to its own place: that is not nested.
    let above = if target.into { above.get(1..).unwrap_or_default() } else { above };
    there.itself.filter(|there| above.contains(there)).map(|_| Nested::SourceWithin)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::RelPath;
    use store::posix::{Links, Posix};

    use super::*;

    const JOB: JobName = [7; 16];

    fn root(dir: &std::path::Path, path: &str) -> SourceRoot {
        let store = Arc::new(Posix::open(dir, Links::Inside).unwrap());
        let name = model::Name::new(b"s").unwrap();
        SourceRoot { store, path: RelPath::parse(path.as_bytes()).unwrap(), name }
    }

    #[test]
    fn nesting_is_found_through_links_and_other_roots() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("t/deep")).unwrap();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::os::unix::fs::symlink("t/deep", dir.path().join("link")).unwrap();
        let source = of_sources(&JOB, &[root(dir.path(), "t")]).remove(0);
        let lies = |at: &std::path::Path, path: &str, into| {
            let target = root(at, path);
            nested(&JOB, &source, &*target.store, &Target { path: target.path, into, is_dir: into })
        };
        let nested = |at: &std::path::Path, path: &str| lies(at, path, false);
        assert_eq!(lies(dir.path(), "t", true), Some(Nested::TargetWithin), "into itself");
        assert_eq!(lies(dir.path(), "", true), None, "into its own place");
        assert_eq!(lies(dir.path().parent().unwrap(), "", true), Some(Nested::SourceWithin));
        assert_eq!(nested(dir.path(), "t/new/deeper"), Some(Nested::TargetWithin));
        assert_eq!(nested(dir.path(), "t/deep"), Some(Nested::TargetWithin));
        assert_eq!(nested(&dir.path().join("t"), "x"), Some(Nested::TargetWithin), "from another root");
        assert_eq!(nested(&dir.path().join("link"), "x"), Some(Nested::TargetWithin), "by a link");
        assert_eq!(nested(dir.path(), ""), Some(Nested::SourceWithin));
        for apart in ["other", "other/x", "tt", "t"] {
            assert_eq!(nested(dir.path(), apart), None, "{apart}");
        }
        assert!(of_sources(&JOB, &[]).is_empty());
        assert_ne!(of_sources(&[8; 16], &[root(dir.path(), "t")])[0], source, "the tokens of another job differ");
    }
}
