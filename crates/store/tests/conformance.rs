//! The conformance suite: one set of checks for every back end that keeps a tree, as functions over `&dyn Store`. A check asks for
//! the abilities of a back end (`Capabilities`), never for its type.
//!
//! A new back end gets a module in `on_every_store`. The stores that keep no tree (`null:`, `zero:`, pipes)
//! have their own tests in `ends.rs`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[allow(dead_code, reason = "each test program uses its part")]
mod support;

mod conformance {
    pub mod dirs;
    pub mod errors;
    pub mod files;
    pub mod links;
    pub mod names;
    pub mod sparse;
}

use store::Store;
use store::posix::{Links, Posix};

fn on_posix(links: Links, check: fn(&dyn Store)) {
    let dir = tempfile::tempdir().unwrap();
    let store = Posix::open(dir.path(), links).unwrap();
    check(&store);
    // Whatever a check does, it must not leave unfinished files behind.
    let mut left = Vec::new();
    unfinished(dir.path(), &mut left);
    assert!(left.is_empty(), "unfinished files were left behind: {left:?}");
}

fn unfinished(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_name().as_encoded_bytes().starts_with(b".longhaul-") {
            found.push(entry.path());
        }
        // The test that makes a tree as deep as a path may be long checks that tree itself.
        if entry.file_type().unwrap().is_dir() && entry.path().as_os_str().len() < 2000 {
            unfinished(&entry.path(), found);
        }
    }
}

macro_rules! on_every_store {
    ($($module:ident: $($check:ident)*;)*) => {
        mod posix_inside {
            $($(#[test] fn $check() { crate::on_posix(store::posix::Links::Inside, crate::conformance::$module::$check); })*)*
        }
        mod posix_refuse {
            $($(#[test] fn $check() { crate::on_posix(store::posix::Links::Refuse, crate::conformance::$module::$check); })*)*
        }
        mod memory {
            $($(#[test] fn $check() { crate::conformance::$module::$check(&store::memory::Memory::default()); })*)*
        }
    };
}

on_every_store! {
    names: any_byte_is_a_name long_and_odd_names;
    files: sizes_read_back writes_out_of_order reads_past_the_end commit_gives_mode_and_time
        nothing_has_the_name_before_commit discard_and_drop_leave_nothing a_file_is_replaced_only_where_allowed
        a_directory_is_in_the_way commit_sets_the_length a_sink_reads_back a_reader_keeps_what_it_opened
        durable_files_read_back two_files_at_once a_temporary_name_in_use_is_left_alone a_tag_is_only_a_name;
    dirs: trees_nest making_a_directory_twice_leaves_it_as_it_is make_dir_makes_usable a_file_is_in_the_way finish_dir_sets_mode_and_time
        make_dirs_makes_parents remove_takes_what_is_empty remove_all_takes_the_tree remove_all_goes_deep
        rename_moves_trees rename_replaces_files rename_replaces_only_where_allowed rename_refuses_nonsense
        an_empty_directory_lists_nothing
        a_large_directory_lists_all is_dir_is_true_of_directories_only the_root_stays;
    links: symlinks_are_verbatim symlinks_replace remove_all_takes_links_not_their_targets
        hard_links_share_one_file hard_links_replace hard_links_need_a_file;
    sparse: holes_are_found;
    errors: errors_name_the_path_and_the_operation;
}
