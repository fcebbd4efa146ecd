//! Why a file of a scratch place may not take more room, and the error of a store for it.

use std::io;

use model::name::RelPath;
use model::units::Bytes;
use store::Error;

/// Why a file of a place may not take more room.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// The place has ended, or never was.
    NoPlace,
    /// The quota of the place is used up.
    Quota { used_bytes: u64, quota_bytes: u64 },
    /// The paths of all files take as much memory as they may.
    Paths,
}

impl NoRoom {
    /// The error of an operation on a path.
    pub fn as_error(&self, doing: &'static str, path: &RelPath) -> Error {
        let source = match self {
            NoRoom::NoPlace => io::Error::new(
                io::ErrorKind::NotFound,
                "no scratch place of this node holds it, or the place has ended; POST /api/v1/scratches orders one",
            ),
            NoRoom::Quota { used_bytes, quota_bytes } => {
                let (used, quota) = (Bytes(*used_bytes), Bytes(*quota_bytes));
                let why = format!("the scratch place uses {used} of its quota of {quota}");
                io::Error::new(io::ErrorKind::QuotaExceeded, why)
            }
            NoRoom::Paths => io::Error::new(
                io::ErrorKind::QuotaExceeded,
                "the node cannot keep account of more files in its scratch places",
            ),
        };
        Error::io(doing, path, source)
    }
}
