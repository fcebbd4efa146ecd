//! The states of files and the kinds of jobs, with their numbers in the database. A number is never reused for anything else.

/// The priority of queues of paused jobs: none of their files is begun.
pub const PAUSED: i64 = 0;

/// The state of a file in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileState {
    /// It waits for its turn.
    Queued,
    /// A node or a server moves it.
    Running,
    /// It waits until another source has failed, or the hop before it is done.
    Standby,
    /// It is at its target, verified.
    Done,
    /// It has failed, and will not be tried again.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl FileState {
    const ALL: [FileState; 6] = [
        FileState::Queued,
        FileState::Running,
        FileState::Standby,
        FileState::Done,
        FileState::Failed,
        FileState::Cancelled,
    ];

    /// Its number.
    pub fn code(self) -> i64 {
        FileState::ALL.iter().position(|state| *state == self).unwrap_or_default() as i64
    }

    /// The state with a number; `None` if a newer hub wrote the number.
    pub fn of_code(code: i64) -> Option<FileState> {
        FileState::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// Whether it has ended.
    pub fn is_last(self) -> bool {
        matches!(self, FileState::Done | FileState::Failed | FileState::Cancelled)
    }

    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            FileState::Queued => "queued",
            FileState::Running => "running",
            FileState::Standby => "standby",
            FileState::Done => "done",
            FileState::Failed => "failed",
            FileState::Cancelled => "cancelled",
        }
    }
}

/// How the files of a job depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Each file is moved independently.
    Independent,
    /// Some files have several sources, of which one is enough.
    MultiSource,
    /// Each file is a hop: it is read where the hop before it was written.
    MultiHop,
}

impl JobKind {
    const ALL: [JobKind; 3] = [JobKind::Independent, JobKind::MultiSource, JobKind::MultiHop];

    /// Its number.
    pub fn code(self) -> i64 {
        JobKind::ALL.iter().position(|kind| *kind == self).unwrap_or_default() as i64
    }

    /// The kind with a number.
    pub fn of_code(code: i64) -> Option<JobKind> {
        JobKind::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_codes_never_change() {
        let numbers: Vec<i64> = FileState::ALL.into_iter().map(FileState::code).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        assert!(FileState::ALL.into_iter().all(|state| FileState::of_code(state.code()) == Some(state)));
        assert_eq!((FileState::of_code(6), FileState::of_code(-1)), (None, None));
        assert!(JobKind::ALL.into_iter().all(|kind| JobKind::of_code(kind.code()) == Some(kind)));
        assert_eq!(JobKind::MultiHop.code(), 2);
    }
}
