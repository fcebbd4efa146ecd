//! One file per command.

pub mod ask;
pub mod cp;
pub mod grant;
pub mod manual;
pub mod serve;
