//! End to end: the real binary as node and client, over real sockets, on real files.
//!
//! Every test has nodes, clients, ports and directories of its own, so that all of them can run at once; only one lab runs at
//! a time. No test waits for a fixed time: it waits for a fact, up to a deadline. A test that cannot run on a machine reports
//! that.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod access;
mod api;
mod attributes;
mod breaks;
mod cli;
mod client;
mod confinement;
mod control;
mod daily;
mod data;
mod data_hubs;
mod data_outward;
mod delegated_keys;
mod deletes;
mod demo;
mod docs;
mod exercise;
mod file_commands;
mod file_copy;
mod fts;
mod grid;
mod hostile;
mod hostile_clients;
mod hostile_nodes;
mod https;
mod hub;
mod hub_copies;
mod hub_faults;
mod hub_people;
mod hub_promises;
mod hubs;
mod kills;
mod lab;
mod legs;
mod limits;
mod messages;
mod metrics;
mod mirrors;
mod movers;
mod node;
mod node_names;
mod oneway;
mod options;
mod overlay;
mod package;
mod pages;
mod plan;
mod portal;
#[path = "../../../hub/tests/servers/postgres.rs"]
mod postgres;
mod probe;
mod proxies;
mod pscheduler;
mod rabbitmq;
mod raw_client;
mod receipts;
mod relay;
mod reload;
mod remedies;
mod remote_servers;
mod report;
mod resume;
mod rewritten;
#[path = "../../../remote/tests/servers/s3.rs"]
mod s3;
mod scripted_node;
mod second_node;
mod session_pool;
mod space;
mod ssh;
mod sshd;
mod storage;
mod support;
mod sync;
mod tape;
mod targets;
mod test_copies;
mod third_party;
mod tree;
mod tree_copies;
mod tune;
mod unfinished;
mod unfinished_state;
mod unknown_protocols;
mod wait;
mod watch;
mod web;
mod web_access;
mod within;
mod wrappers;
