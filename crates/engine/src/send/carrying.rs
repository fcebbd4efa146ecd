//! What the machine's orders ask of a stream.

use crate::error::Error;
use crate::stream::DataStream;

/// A stream as the machine's orders reach it, wherever its socket is.
pub(super) trait Carrying {
    /// Its number in the session.
    fn id(&self) -> u32;
    /// Whether it is known to carry nothing any more.
    fn is_lost(&self) -> bool;
    /// Whether who looks after it says that it is one too many.
    fn is_surplus(&self) -> bool {
        false
    }
    /// What it means that it is lost.
    fn lost(&self) -> Error;
}

impl Carrying for DataStream {
    fn id(&self) -> u32 {
        DataStream::id(self)
    }

    fn is_lost(&self) -> bool {
        DataStream::is_lost(self)
    }

    fn lost(&self) -> Error {
        DataStream::lost(self)
    }
}
