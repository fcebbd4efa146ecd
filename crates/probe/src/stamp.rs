//! STAMP (RFC 8762) and TWAMP-Light: round trips, delays, loss and variation by direction.
//!
//! [`send::run`] sends questions for a test, [`stream::Stream`] without end. [`reflect::Reflector`] answers them, and
//! [`reflect::serve`] runs it on a socket. [`tally`] makes counts from sequence numbers, [`delays`] makes delays from times; both
//! are pure, as are [`packet`] and [`tlv`].
//!
//! What this module does not know: authenticated mode (RFC 8762, section 4.2.2), hardware time stamps, TWAMP-Control.

pub mod clock;
pub mod delays;
pub(crate) mod fuzzing;
pub mod packet;
pub mod reflect;
pub mod send;
pub mod stream;
pub mod tally;
pub mod tlv;

pub use clock::{Clock, HostClock};
pub use reflect::{Reflector, Responder, Trust, serve};
pub use send::{Extent, Order, run};
