//! The states of replicas and locks, the kinds of names, and their codes in the database. A code is never reused for another state.

use model::v1::hub::{DataKind, Grouping};

/// The state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicaState {
    /// It exists, and was verified when it was made.
    Available,
    /// A rule wants it.
    Wanted,
    /// A job of the queue makes it.
    Copying,
    /// It has been declared bad: it is damaged or lost.
    Bad,
    /// It is being deleted.
    Deleting,
}

impl ReplicaState {
    const ALL: [ReplicaState; 5] = [
        ReplicaState::Available,
        ReplicaState::Wanted,
        ReplicaState::Copying,
        ReplicaState::Bad,
        ReplicaState::Deleting,
    ];

    /// Its code in the database.
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// The state of a code; `None` for a code that only a newer hub knows.
    pub fn of_code(code: i64) -> Option<ReplicaState> {
        ReplicaState::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            ReplicaState::Available => "available",
            ReplicaState::Wanted => "wanted",
            ReplicaState::Copying => "copying",
            ReplicaState::Bad => "bad",
            ReplicaState::Deleting => "deleting",
        }
    }
}

/// The state of a rule's lock on a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockState {
    /// The replica is being made, or waits to be made.
    Replicating,
    /// The replica is available.
    Ok,
    /// The last attempt to make the replica failed; it is tried again later.
    Stuck,
}

impl LockState {
    const ALL: [LockState; 3] = [LockState::Replicating, LockState::Ok, LockState::Stuck];

    /// Its code in the database.
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// The state of a code; `None` for a code that only a newer hub knows.
    pub fn of_code(code: i64) -> Option<LockState> {
        LockState::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            LockState::Replicating => "replicating",
            LockState::Ok => "ok",
            LockState::Stuck => "stuck",
        }
    }
}

const KINDS: [DataKind; 3] = [DataKind::File, DataKind::Dataset, DataKind::Container];
const GROUPINGS: [Grouping; 3] = [Grouping::All, Grouping::Dataset, Grouping::File];

/// The code of a kind.
pub fn kind_code(kind: DataKind) -> i64 {
    KINDS.iter().position(|known| *known == kind).unwrap_or_default() as i64
}

/// The kind of a code.
pub fn kind_of_code(code: i64) -> DataKind {
    usize::try_from(code).ok().and_then(|at| KINDS.get(at).copied()).unwrap_or_default()
}

/// The code of a grouping.
pub fn grouping_code(grouping: Grouping) -> i64 {
    GROUPINGS.iter().position(|known| *known == grouping).unwrap_or_default() as i64
}

/// The grouping of a code.
pub fn grouping_of_code(code: i64) -> Grouping {
    usize::try_from(code).ok().and_then(|at| GROUPINGS.get(at).copied()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_codes_never_change() {
        assert_eq!(ReplicaState::ALL.map(ReplicaState::code), [0, 1, 2, 3, 4]);
        assert_eq!(LockState::ALL.map(LockState::code), [0, 1, 2]);
        assert_eq!(KINDS.map(kind_code), [0, 1, 2]);
        assert_eq!(GROUPINGS.map(grouping_code), [0, 1, 2]);
        assert!(KINDS.iter().all(|kind| kind_of_code(kind_code(*kind)) == *kind));
        assert!(GROUPINGS.iter().all(|grouping| grouping_of_code(grouping_code(*grouping)) == *grouping));
        assert_eq!((ReplicaState::of_code(5), LockState::of_code(-1)), (None, None));
    }
}
