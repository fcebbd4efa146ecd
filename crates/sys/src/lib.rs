//! The system calls that the standard library does not offer: TCP facts and options, TLS in the kernel, a wake-up descriptor, limits of this process,
//! namespaces, TUN devices, drivers of NICs, rtnetlink, real-time threads, processor time. All `unsafe` code of the workspace is here: all
//! other crates forbid it.
//!
//! This crate does not know what the facts are used for. It reads and sets; it decides nothing.

pub mod addresses;
pub mod cgroup;
pub mod clock;
pub mod clock_quality;
pub mod datagrams;
pub mod errqueue;
pub mod ethtool;
pub mod files;
pub mod flow_label;
pub mod ktls;
pub mod limits;
pub mod namespace;
pub mod rtnetlink;
pub mod schedule;
pub mod stamps;
pub mod tcp;
pub mod tun;
pub mod udp;
pub mod waker;
