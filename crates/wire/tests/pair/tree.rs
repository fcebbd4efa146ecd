//! Source trees: entries, and the contents of their files.

use model::entry::Timestamp;
use model::name::{Name, RelPath};

use crate::rng::mix;

/// A file's bytes, made from a seed so that a large tree takes no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub seed: u64,
    pub len: u64,
    /// Offset and length; in order, not touching.
    pub holes: Vec<(u64, u64)>,
}

impl Content {
    pub fn new(seed: u64, len: u64) -> Content {
        Content { seed, len, holes: Vec::new() }
    }

    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let len = len.min(self.len - offset);
        let mut out = Vec::with_capacity(len as usize);
        for (at, piece, hole) in self.pieces(offset, len) {
            if hole.is_some() {
                out.resize(out.len() + piece as usize, 0);
                continue;
            }
            let (first, last) = (at / 8, (at + piece).div_ceil(8));
            let words = (first..last).map(|word| mix(self.seed ^ mix(word)).to_le_bytes());
            let bytes = words.collect::<Vec<[u8; 8]>>().concat();
            out.extend_from_slice(&bytes[(at - first * 8) as usize..][..piece as usize]);
        }
        out
    }

    pub fn all(&self) -> Vec<u8> {
        self.read(0, self.len)
    }

    /// The pieces of a range: start, length, and the hole's end if the piece is in a hole.
    pub fn pieces(&self, offset: u64, len: u64) -> Vec<(u64, u64, Option<u64>)> {
        let mut at = offset;
        let end = offset + len;
        let mut out = Vec::new();
        for (start, hole) in &self.holes {
            let (from, to) = ((*start).max(at), (start + hole).min(end));
            if from < to {
                if at < from {
                    out.push((at, from - at, None));
                }
                out.push((from, to - from, Some(start + hole)));
                at = to;
            }
        }
        if at < end || len == 0 {
            out.push((at, end - at, None));
        }
        out
    }
}

/// What an entry of a source tree is.
#[derive(Clone, Debug)]
pub enum NodeKind {
    Dir(Vec<Node>),
    File(Content),
    /// A file whose size is not known before its end.
    Pipe(Content),
    Symlink(Vec<u8>),
    /// Another name for the file at this path below the same root.
    HardLink(RelPath),
    Special,
    Unreadable,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub name: Name,
    pub what: NodeKind,
}

/// A step of a scan, in order.
#[derive(Clone, Debug)]
pub enum Step {
    Offer { source: u32, path: RelPath, name: Name, what: NodeKind },
    Leave,
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

pub fn dir(text: &str, children: Vec<Node>) -> Node {
    Node { name: name(text), what: NodeKind::Dir(children) }
}

pub fn file(text: &str, len: u64) -> Node {
    let seed = text.bytes().fold(len, |sum, byte| mix(sum ^ u64::from(byte)));
    Node { name: name(text), what: NodeKind::File(Content::new(seed, len)) }
}

pub fn node(text: &str, what: NodeKind) -> Node {
    Node { name: name(text), what }
}

/// The mode of an entry. It follows from the name, as the time does, so that both can be checked at the target.
pub fn mode_of(name: &Name) -> u32 {
    0o400 | (name.as_bytes().iter().map(|b| u32::from(*b)).sum::<u32>() & 0o377)
}

pub fn mtime_of(name: &Name) -> Timestamp {
    let sum = name.as_bytes().iter().fold(7, |sum, b| mix(sum ^ u64::from(*b)));
    Timestamp { seconds: (sum % 2_000_000_000) as i64 - 10, nanos: (sum >> 32) as u32 % 1_000_000_000 }
}

/// A tree as a scanner walks it: depth first, a directory before what is in it.
pub fn steps(roots: &[Node]) -> Vec<Step> {
    let mut out = Vec::new();
    for (source, root) in roots.iter().enumerate() {
        walk(source as u32, RelPath::root(), root, &mut out);
    }
    out
}

fn walk(source: u32, path: RelPath, node: &Node, out: &mut Vec<Step>) {
    let what = match &node.what {
        NodeKind::Dir(_) => NodeKind::Dir(Vec::new()),
        other => other.clone(),
    };
    out.push(Step::Offer { source, path: path.clone(), name: node.name.clone(), what });
    if let NodeKind::Dir(children) = &node.what {
        for child in children {
            walk(source, path.join(&child.name), child, out);
        }
        out.push(Step::Leave);
    }
}
