//! STAMP (RFC 8762) and TWAMP-Light: round trips, delays, loss and variation by direction.
//!
//! [`send::run`] sends the packets of a test, [`stream::Stream`] those of a stream without end. [`reflect::Reflector`] answers
//! them, and [`reflect::serve`] runs it on a socket. [`tally`] counts by sequence numbers, [`delays`] computes delays from times;
//! both are pure, as are [`packet`] and [`tlv`].
//!
//! A packet of the sender is a *question* here, one of the reflector an *answer*.
//!
//! This module does not know the authenticated mode (RFC 8762, section 4.2.2), hardware time stamps, and TWAMP-Control.

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
