//! The interface of a stream to the sending side, for streams of this process and of movers.

use crate::error::Error;
use crate::stream::DataStream;

/// A stream that sends by the machine's orders, in this process or at a mover.
pub(super) trait SendingStream {
    /// Its number in the session.
    fn id(&self) -> u32;
    /// Whether its connection is known to be lost.
    fn is_lost(&self) -> bool;
    /// Whether its mover has reported that it is surplus.
    fn is_surplus(&self) -> bool {
        false
    }
    /// The error of a stream that is lost.
    fn lost(&self) -> Error;
}

impl SendingStream for DataStream {
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
