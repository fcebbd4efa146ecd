//! TWAMP-Control (RFC 5357), unauthenticated: how a tester and a reflector agree on a session of test packets.
//!
//! ```text
//! tester                             reflector
//!   <────────────── Server-Greeting    64 octets: modes
//!   Set-Up-Response ──────────────>   164: mode 1
//!   <────────────────── Server-Start   48: accepted
//!   Request-TW-Session ───────────>   112: addresses, ports
//!   <──────────────── Accept-Session   48: the port to send to
//!   Start-Sessions ───────────────>    32
//!   <───────────────────── Start-Ack   32
//!   test packets ═════════════════>   UDP, as in [`crate::stamp`] without sessions and TLVs
//!   Stop-Sessions ────────────────>    32
//! ```
//!
//! This module does not know the authenticated and encrypted modes (RFC 4656, section 3), which no tool of perfSONAR uses by default.

mod client;
pub(crate) mod fuzzing;
mod message;
mod server;

pub use client::{TwampSession, begin};
pub use server::{Bounds, TestSession, serve};

#[cfg(test)]
mod tests;
