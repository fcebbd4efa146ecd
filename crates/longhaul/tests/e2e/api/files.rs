//! Orders that name their files one by one.

use std::fs;

use model::id::Uuid;
use model::v1::Stage;
use model::v1::node::{Order, OrderFile};

use super::{ended, pair, problem};

#[test]
fn files_are_ordered_one_by_one_and_told_of_one_by_one() {
    let pair = pair();
    fs::create_dir_all(pair.here.data("run/deep")).unwrap();
    fs::write(pair.here.data("run/a"), "a").unwrap();
    fs::write(pair.here.data("run/deep/b c"), "bb").unwrap();
    let file = |source: &str, target: &str| OrderFile {
        source: source.to_owned(),
        target: pair.there.at(target),
        bytes: None,
    };
    let order = Order {
        source: Vec::new(),
        target: String::new(),
        files: vec![
            file("/data/run/a", "data/in/x/renamed"),
            file("/data/run/missing", "data/in/missing"),
            file("/data/run/deep/b%20c", "data/in/b%20c"),
        ],
        ..pair.push("", "")
    };
    pair.api.create(&order).unwrap();
    let transfer = ended(&pair.api, order.id);
    assert_eq!(transfer.state, Stage::Partial, "{transfer:?}");
    assert_eq!((transfer.source, transfer.target), (vec!["/data/run".to_owned()], pair.there.at("data/in")));
    let first = pair.api.files(order.id, 0, 2).unwrap();
    let rest = pair.api.files(order.id, first.next, 10).unwrap();
    assert_eq!((first.next, rest.next), (2, 3));
    let mut told: Vec<_> = first.files.into_iter().chain(rest.files).collect();
    told.sort_by_key(|file| file.index);
    assert_eq!(told.iter().map(|file| (file.done, file.bytes)).collect::<Vec<_>>(), [(true, 1), (false, 0), (true, 2)]);
    assert_eq!(told[1].fault.as_deref(), Some("missing"));
    assert_eq!(fs::read(pair.there.data("in/x/renamed")).unwrap(), b"a");
    assert_eq!(fs::read(pair.there.data("in/b c")).unwrap(), b"bb");

    let both = Order { id: Uuid::now_v7(), source: vec!["/data/run".into()], ..order.clone() };
    assert!(problem(pair.api.create(&both)).reason.contains("and not both"));
    let scattered = vec![file("/data/run/a", "data/a"), file("/other/a", "data/b")];
    let scattered = Order { id: Uuid::now_v7(), files: scattered, ..order };
    assert!(problem(pair.api.create(&scattered)).reason.contains("in one export"));
}
