//! STAMP (RFC 8762) and TWAMP-Light: round trips, delays, loss and variation by direction.
//!
//! [`send::run`] asks, [`stream::Stream`] asks without end, [`reflect::Reflector`] answers, [`reflect::serve`] does so on a socket. Sequence numbers become
//! counts in [`tally`], times become delays in [`delays`]; both are pure, as are [`packet`] and [`tlv`].
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
