//! One file per command.

pub mod check_status;
pub mod cp;
pub mod data;
pub mod delegated_transfer;
pub mod demo;
pub mod exercise;
pub mod far_end;
pub mod files;
pub mod grant;
pub mod hub;
pub mod job;
pub mod lab;
pub mod manual;
pub mod memory_test;
pub mod plan;
pub mod probe;
pub mod queue;
pub mod report;
pub mod serve;
pub mod share;
pub mod submit;
pub mod support;
pub mod third_party;
pub mod tune;
pub mod watch;
