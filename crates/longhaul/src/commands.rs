//! One file per command.

pub mod ask;
pub mod carry;
pub mod check_status;
pub mod cp;
pub mod data;
pub mod demo;
pub mod far_end;
pub mod grant;
pub mod hub;
pub mod job;
pub mod lab;
pub mod manual;
pub mod probe;
pub mod queue;
pub mod report;
pub mod serve;
pub mod share;
pub mod submit;
pub mod support;
pub mod test;
pub mod third_party;
pub mod tune;
pub mod watch;
