//! Files of an export on tape: a program of the site recalls them to the export's directory, archives new ones, and reports where
//! files are.
//!
//! The program is run as `PROGRAM VERB` in the export's directory, with `LONGHAUL_EXPORT` in its environment. It reads lines of JSON
//! with a `path` each, below the export, until the end of its input. It answers with a line of JSON for each path, with an `error` if
//! something failed:
//!
//! - `recall`: copies files to disk; answers a line as soon as a file is on disk, in any order, so that a library may sort the files
//!   by cartridge;
//! - `archive`: copies files to tape;
//! - `release`: files need not stay on disk any longer;
//! - `locality`: where files are, with a `locality` of the tape REST API (`DISK`, `TAPE`, `DISK_AND_TAPE`, `LOST`, `NONE`, `UNAVAILABLE`).

mod library;
mod notes;
mod program;
pub(crate) mod requests;

pub(crate) use library::{ArchiveGuard, RecallListener, TapeLibrary};
pub use program::TapeProgram;
