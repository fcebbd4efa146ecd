//! Which endpoints a group of files goes to.

use std::collections::BTreeSet;

/// An endpoint that a rule's expression matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its site; empty if the collaboration describes none.
    pub site: String,
    /// Its weight among the candidates, larger than 0: over many groups it gets a part of them in proportion.
    pub weight: f64,
    /// Bytes that may still be stored there; `None` if its space is not bounded.
    pub space_bytes: Option<u64>,
    /// Bytes that the rules of the account may still hold there, stored already or not; `None` if no quota is set.
    pub quota_bytes: Option<u64>,
    /// Bytes of the group that are there, or on their way: they need not be moved.
    pub present_bytes: u64,
    /// Those of `present_bytes` whose space is reserved already, because another rule holds them.
    pub promised_bytes: u64,
}

impl Candidate {
    /// Whether it can take a group of this many bytes, of which `promised_bytes` need no more of its space.
    pub fn has_room(&self, bytes: u64) -> bool {
        let missing = bytes.saturating_sub(self.promised_bytes);
        self.space_bytes.is_none_or(|space| missing <= space) && self.quota_bytes.is_none_or(|quota| bytes <= quota)
    }
}

/// How many endpoints are chosen, and for which group of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How many endpoints; each of them gets the whole group.
    pub copies: usize,
    /// Bytes of the group.
    pub bytes: u64,
    /// A number that no other group has: it scatters the groups over the endpoints.
    pub group: u64,
}

/// Too few endpoints can take a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct Shortage {
    /// The number of copies that were wanted.
    pub wanted: usize,
    /// Bytes of the group.
    pub bytes: u64,
    /// Endpoints that can take it.
    pub able: Vec<String>,
    /// Endpoints that the expression matches and that have no room for it.
    pub full: Vec<String>,
}

impl Shortage {
    fn sentence(&self) -> String {
        let listed = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let copies = if self.wanted == 1 { "1 copy".to_owned() } else { format!("{} copies", self.wanted) };
        let mut text = format!("{copies} cannot be placed: the expression matches {}", listed(&self.able));
        if !self.full.is_empty() {
            let bytes = model::Bytes(self.bytes);
            let have = if self.full.len() == 1 { "has" } else { "have" };
            text += &format!(", and {}, which {have} no room for {bytes}", listed(&self.full));
        }
        match self.able.len() {
            0 if self.full.is_empty() => text += "; name endpoints that are described, with storage",
            0 => text += "; free space or raise the quota there, or name other endpoints",
            able => text += &format!("; ask for {able}, or name more endpoints"),
        }
        text
    }
}

/// Chooses endpoints for a group of files; returns indices of `candidates`, best first. Endpoints with the most bytes of the group come
/// first: these bytes need not be moved. Then as few endpoints as possible share a site: copies at one site are lost together. The weights
/// decide the rest: over many groups each endpoint gets its part, and an endpoint that is added or removed changes the choice of few groups
/// (rendezvous hashing with weights).
///
/// # Errors
/// Fewer candidates than copies have room.
pub fn choose(candidates: &[Candidate], choice: Choice) -> Result<Vec<usize>, Shortage> {
    let has_room = |at: &usize| candidates[*at].has_room(choice.bytes);
    let (mut able, full): (Vec<usize>, Vec<usize>) = (0..candidates.len()).partition(has_room);
    if able.len() < choice.copies {
        let names = |indices: &[usize]| indices.iter().map(|at| candidates[*at].name.clone()).collect();
        return Err(Shortage { wanted: choice.copies, bytes: choice.bytes, able: names(&able), full: names(&full) });
    }
    let score = |at: &usize| score(&candidates[*at], choice.group);
    able.sort_by(|a, b| {
        let present = candidates[*b].present_bytes.cmp(&candidates[*a].present_bytes);
        present.then_with(|| score(b).total_cmp(&score(a)))
    });
    let mut chosen = Vec::with_capacity(choice.copies);
    let mut sites = BTreeSet::new();
    // Endpoints at a site of which another endpoint has been chosen.
    let mut same_site = Vec::new();
    for at in able {
        let site = &candidates[at].site;
        let is_first_of_site = site.is_empty() || sites.insert(site.clone());
        if is_first_of_site { chosen.push(at) } else { same_site.push(at) }
    }
    chosen.extend(same_site);
    chosen.truncate(choice.copies);
    Ok(chosen)
}

/// Checks that files which are placed one by one, each with `copies` copies at different endpoints, can all be placed: the endpoints
/// together have room for `copies` times `bytes`, where one endpoint counts for `bytes` at most. Files are assumed to be small compared
/// with endpoints: a file that is larger than the room left at every endpoint is found only when it is placed.
///
/// # Errors
/// The candidates are fewer than the copies, or have too little room together.
pub fn check_spread(candidates: &[Candidate], copies: usize, bytes: u64) -> Result<(), Shortage> {
    let room = |candidate: &Candidate| {
        let space = candidate.space_bytes.map_or(bytes, |space| space.saturating_add(candidate.promised_bytes));
        space.min(candidate.quota_bytes.unwrap_or(bytes)).min(bytes)
    };
    let all: u128 = candidates.iter().map(|candidate| u128::from(room(candidate))).sum();
    if candidates.len() >= copies && all >= u128::from(bytes) * copies as u128 {
        return Ok(());
    }
    let names = |is_able: bool| {
        let named = candidates.iter().filter(|candidate| (room(candidate) == bytes) == is_able);
        named.map(|candidate| candidate.name.clone()).collect()
    };
    Err(Shortage { wanted: copies, bytes, able: names(true), full: names(false) })
}

/// -weight / ln(u), where u in (0, 1) is a hash of the endpoint and the group: each endpoint has the highest score with a
/// probability in proportion to its weight (Schindelhauer and Schomaker, 2005).
fn score(candidate: &Candidate, group: u64) -> f64 {
    let hash = candidate
        .name
        .bytes()
        .fold(group ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let uniform = ((mixed(hash) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -candidate.weight / uniform.ln()
}

/// The finaliser of SplitMix64: every bit of the input changes half of the output.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(name: &str, site: &str) -> Candidate {
        let (name, site) = (name.into(), site.into());
        Candidate { name, site, weight: 1.0, space_bytes: None, quota_bytes: None, present_bytes: 0, promised_bytes: 0 }
    }

    fn chosen(candidates: &[Candidate], choice: Choice) -> Vec<&str> {
        choose(candidates, choice).unwrap().into_iter().map(|at| candidates[at].name.as_str()).collect()
    }

    #[test]
    fn files_that_are_placed_one_by_one_need_room_for_all_copies_together() {
        let some = |name: &str, space: u64| Candidate { space_bytes: Some(space), ..candidate(name, name) };
        let three = [some("a", 60), some("b", 60), some("c", 1_000)];
        assert_eq!(check_spread(&three, 2, 100), Ok(()), "c has one copy, a and b have the other one between them");
        let shortage = check_spread(&three, 3, 100).unwrap_err();
        assert_eq!((shortage.able, shortage.full), (vec!["c".to_owned()], vec!["a".to_owned(), "b".to_owned()]));
        let there = Candidate { promised_bytes: 90, ..some("a", 10) };
        assert_eq!(check_spread(&[there], 1, 100), Ok(()), "what is there needs no room");
        let quota = Candidate { quota_bytes: Some(99), ..candidate("a", "a") };
        assert!(check_spread(&[quota], 1, 100).is_err());
        assert!(check_spread(&[candidate("a", "a")], 2, 0).is_err(), "two copies of nothing need two endpoints, too");
    }

    #[test]
    fn an_endpoint_that_has_the_files_is_chosen_again() {
        let mut candidates = [candidate("a", ""), candidate("b", ""), candidate("c", "")];
        candidates[2].present_bytes = 90;
        candidates[2].promised_bytes = 90;
        candidates[2].space_bytes = Some(10);
        candidates[2].quota_bytes = Some(100);
        for group in 0..50 {
            assert_eq!(chosen(&candidates, Choice { copies: 1, bytes: 100, group }), ["c"]);
        }
    }

    #[test]
    fn copies_are_at_different_sites_where_they_can_be() {
        let candidates = [candidate("a1", "a"), candidate("a2", "a"), candidate("b1", "b")];
        for group in 0..50 {
            let two = chosen(&candidates, Choice { copies: 2, bytes: 1, group });
            assert!(two.contains(&"b1"), "{two:?}");
            assert_eq!(
                chosen(&candidates, Choice { copies: 3, bytes: 1, group }).len(),
                3,
                "each endpoint is chosen once"
            );
        }
    }

    #[test]
    fn a_shortage_says_how_many_copies_can_be_placed() {
        let mut candidates = vec![candidate("a", ""), candidate("b", "")];
        let error = choose(&candidates, Choice { copies: 3, bytes: 1, group: 0 }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "3 copies cannot be placed: the expression matches a, b; ask for 2, or name more endpoints"
        );
        candidates[1].quota_bytes = Some(5);
        let error = choose(&candidates, Choice { copies: 2, bytes: 2_000_000, group: 0 }).unwrap_err();
        assert!(error.to_string().contains("matches a, and b, which has no room for"), "{error}");
        let error = choose(&[], Choice { copies: 1, bytes: 1, group: 0 }).unwrap_err();
        assert!(error.to_string().contains("matches none; name endpoints"), "{error}");
    }

    #[test]
    fn over_many_groups_each_endpoint_is_chosen_by_its_weight() {
        let mut candidates = [candidate("a", ""), candidate("b", ""), candidate("c", "")];
        candidates[0].weight = 2.0;
        let mut counts = [0u32; 3];
        for group in 0..20_000 {
            counts[choose(&candidates, Choice { copies: 1, bytes: 1, group }).unwrap()[0]] += 1;
        }
        for (count, share) in counts.into_iter().zip([0.5, 0.25, 0.25]) {
            assert!((f64::from(count) / 20_000.0 - share).abs() < 0.02, "{counts:?}");
        }
    }

    #[test]
    fn a_new_endpoint_takes_only_its_own_part() {
        let before: Vec<Candidate> = ["a", "b", "c"].map(|name| candidate(name, "")).into();
        let mut after = before.clone();
        after.push(candidate("d", ""));
        let moved = (0..4_000).filter(|group| {
            let choice = Choice { copies: 1, bytes: 1, group: *group };
            let (old, new) = (chosen(&before, choice)[0], chosen(&after, choice)[0]);
            assert!(old == new || new == "d", "nothing moves between those that were there");
            old != new
        });
        let moved = moved.count();
        assert!((900..1100).contains(&moved), "{moved} of 4,000");
    }

    proptest! {
        #[test]
        fn the_choice_has_the_wanted_number_of_different_endpoints(sites in proptest::collection::vec(0..3u8, 1..8), copies in 1..8usize, group: u64) {
            let candidates: Vec<Candidate> =
                sites.iter().enumerate().map(|(at, site)| candidate(&format!("e{at}"), &site.to_string())).collect();
            match choose(&candidates, Choice { copies, bytes: 1, group }) {
                Ok(chosen) => {
                    let different: BTreeSet<usize> = chosen.iter().copied().collect();
                    prop_assert_eq!((chosen.len(), different.len()), (copies, copies));
                    let sites = |of: &[usize]| of.iter().map(|at| candidates[*at].site.clone()).collect::<BTreeSet<_>>().len();
                    let all: Vec<usize> = (0..candidates.len()).collect();
                    prop_assert_eq!(sites(&chosen), copies.min(sites(&all)));
                }
                Err(_) => prop_assert!(copies > candidates.len()),
            }
        }
    }
}
