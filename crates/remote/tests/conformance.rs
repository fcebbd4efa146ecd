//! The conformance suite of all stores, on servers: a node of Longhaul over WebDAV, and an S3 server.
//!
//! Left out are the checks of file systems (modes, links, names of unfinished files), and two checks that make thousands of
//! entries one by one; `large.rs` tests listings of many pages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod servers;
#[allow(dead_code, reason = "each test program uses its part")]
#[path = "../../store/tests/support/mod.rs"]
mod support;

#[path = "../../store/tests/conformance/dirs.rs"]
#[allow(dead_code, reason = "some checks are of file systems, and two too long for a server")]
mod dirs;
#[path = "../../store/tests/conformance/errors.rs"]
mod errors;
#[path = "../../store/tests/conformance/files.rs"]
#[allow(dead_code, reason = "some checks are of file systems")]
mod files;
#[path = "../../store/tests/conformance/names.rs"]
mod names;

use servers::{OwnNode, S3Server};
use store::Store;

fn on_webdav(check: fn(&dyn Store)) {
    let node = OwnNode::new();
    check(&node.store());
    // No unfinished file is left behind, under any name.
    let left: Vec<_> = std::fs::read_dir(node.data("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    let odd = left.iter().filter(|name| name.as_encoded_bytes().ends_with(b".upload"));
    assert_eq!(odd.count(), 0, "{left:?}");
}

fn on_s3(check: fn(&dyn Store)) {
    let server = S3Server::new();
    check(&server.store());
}

macro_rules! on_every_server {
    ($($module:ident: $($check:ident)*;)*) => {
        mod webdav {
            $($(#[test] fn $check() { crate::on_webdav(crate::$module::$check); })*)*
        }
        mod s3 {
            $($(#[test] fn $check() { crate::on_s3(crate::$module::$check); })*)*
        }
    };
}

on_every_server! {
    names: any_byte_is_a_name long_and_odd_names;
    files: sizes_read_back writes_out_of_order reads_past_the_end nothing_has_the_name_before_commit
        discard_and_drop_leave_nothing a_file_is_replaced_only_where_allowed a_directory_is_in_the_way commit_sets_the_length
        a_sink_reads_back a_reader_keeps_what_it_opened durable_files_read_back two_files_at_once
        a_tag_is_only_a_name;
    dirs: trees_nest making_a_directory_twice_leaves_it_as_it_is a_file_is_in_the_way make_dirs_makes_parents remove_takes_what_is_empty
        remove_all_takes_the_tree rename_moves_trees rename_replaces_files rename_replaces_only_where_allowed
        rename_refuses_nonsense an_empty_directory_lists_nothing is_dir_is_true_of_directories_only the_root_stays;
    errors: errors_name_the_path_and_the_operation;
}
