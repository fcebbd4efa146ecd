//! The house rules, one test each. A test that fails names file, line and remedy.

use std::sync::OnceLock;

use xtask::tidy::{RULES, Tree, run};

fn assert_holds(name: &str) {
    static TREE: OnceLock<Tree> = OnceLock::new();
    let tree = TREE.get_or_init(|| Tree::load().expect("the files of the workspace can be listed and read"));
    assert!(tree.sources.len() > 20, "the tree was not found at {}", tree.root.display());
    let rule = RULES.iter().find(|rule| rule.0 == name).expect("a rule of that name");
    let report = run(tree, rule).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(report.is_empty(), "\n{report}");
}

macro_rules! rules {
    ($($name:ident)*) => {
        $(#[test] fn $name() { assert_holds(stringify!($name)); })*

        #[test]
        fn every_rule_has_its_test() {
            let tested = [$(stringify!($name)),*];
            assert_eq!(tested.to_vec(), RULES.iter().map(|rule| rule.0).collect::<Vec<_>>());
        }
    };
}

rules! {
    arrows_point_down
    modules_have_no_circles
    files_open_with_their_purpose
    files_are_short
    functions_are_short
    lines_are_not_endless
    unsafe_is_in_sys
    only_programs_print
    nothing_unwraps
    pure_crates_stay_pure
    names_say_something
    types_are_nouns
    one_name_is_one_thing
    modules_are_no_pictures
    sentences_are_plain
    the_licence_is_there
    committed_files_are_small_texts
    documents_name_no_machine
    packaging_names_the_version
    links_lead_somewhere
    messages_are_quoted_as_they_are
    what_can_be_spent_is_bounded
    the_picture_shows_the_crates
    test_programs_have_budgets
}
