//! Pairs the hops of two traces with the fewest changes. Pure.

use model::v1::probe::route::Hop;

/// A step of the pairing, with the indexes of hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// The same hop, or one that no answer contradicts.
    Same(usize, usize),
    /// Another router in its place.
    Other(usize, usize),
    /// A hop of the first trace only.
    Removed(usize),
    /// A hop of the second trace only.
    Added(usize),
}

impl Pair {
    /// Index in the first trace.
    pub fn earlier(self) -> Option<usize> {
        match self {
            Pair::Same(old, _) | Pair::Other(old, _) | Pair::Removed(old) => Some(old),
            Pair::Added(_) => None,
        }
    }

    /// Index in the second trace.
    pub fn later(self) -> Option<usize> {
        match self {
            Pair::Same(_, new) | Pair::Other(_, new) | Pair::Added(new) => Some(new),
            Pair::Removed(_) => None,
        }
    }
}

/// Cost of a pairing step. A pair with a silent hop costs a little, so that it does not displace a pair that is known to be the
/// same hop; a replacement costs less than a removal and an addition.
const SILENT: u32 = 1;
const REPLACED: u32 = 5;
const UNPAIRED: u32 = 4;

fn cost(old: &Hop, new: &Hop) -> u32 {
    let has = |hop: &Hop, address: &str| hop.routers.iter().any(|router| router.address == address);
    match (old.routers.is_empty(), new.routers.is_empty()) {
        (false, false) if old.routers.iter().any(|router| has(new, &router.address)) => 0,
        (false, false) => REPLACED,
        _ => SILENT,
    }
}

/// Pairs hops in their order (Wagner and Fischer, 1974).
pub fn align(old: &[Hop], new: &[Hop]) -> Vec<Pair> {
    // best[i][j]: the least cost of pairing the hops from old[i] and new[j] on.
    let mut best = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..=old.len()).rev() {
        for j in (0..=new.len()).rev() {
            best[i][j] = match (i < old.len(), j < new.len()) {
                (false, false) => 0,
                (true, false) => UNPAIRED + best[i + 1][j],
                (false, true) => UNPAIRED + best[i][j + 1],
                (true, true) => (cost(&old[i], &new[j]) + best[i + 1][j + 1])
                    .min(UNPAIRED + best[i + 1][j])
                    .min(UNPAIRED + best[i][j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    while i < old.len() || j < new.len() {
        let cost_here = best[i][j];
        let both = (i < old.len() && j < new.len()).then(|| cost(&old[i], &new[j]));
        match both {
            Some(cost) if cost_here == cost + best[i + 1][j + 1] => {
                pairs.push(if cost == REPLACED { Pair::Other(i, j) } else { Pair::Same(i, j) });
                (i, j) = (i + 1, j + 1);
            }
            _ if i < old.len() && cost_here == UNPAIRED + best[i + 1][j] => {
                pairs.push(Pair::Removed(i));
                i += 1;
            }
            _ => {
                pairs.push(Pair::Added(j));
                j += 1;
            }
        }
    }
    pairs
}
