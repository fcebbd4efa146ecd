//! Orders that name their files one by one.

use std::fs;

use model::id::Uuid;
use model::v1::Stage;
use model::v1::node::{Credentials, Order, OrderFile};
use nodeapi::Api;

use super::{api, ended, full_key, pair, plain, problem};
use crate::https;
use crate::node::Node;
use crate::wait::{LONG, until};

#[test]
fn files_are_ordered_and_reported_one_by_one() {
    let pair = pair();
    fs::create_dir_all(pair.here.data("run/deep")).unwrap();
    fs::write(pair.here.data("run/a"), "a").unwrap();
    fs::write(pair.here.data("run/deep/b c"), "bb").unwrap();
    let file = |source: &str, target: &str| OrderFile {
        source: source.to_owned(),
        target: pair.there.at(target),
        ..OrderFile::default()
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
    pair.api.create_transfer(&order).unwrap();
    let transfer = ended(&pair.api, order.id);
    assert_eq!(transfer.state, Stage::Partial, "{transfer:?}");
    assert_eq!((transfer.source, transfer.target), (vec!["/data/run".to_owned()], pair.there.at("data/in")));
    let first = pair.api.files(order.id, 0, 2).unwrap();
    let rest = pair.api.files(order.id, first.next, 10).unwrap();
    assert_eq!((first.next, rest.next), (2, 3));
    let mut files: Vec<_> = first.files.into_iter().chain(rest.files).collect();
    files.sort_by_key(|file| file.index);
    assert_eq!(
        files.iter().map(|file| (file.done, file.bytes)).collect::<Vec<_>>(),
        [(true, 1), (false, 0), (true, 2)]
    );
    assert_eq!(files[1].fault.as_deref(), Some("missing"));
    assert_eq!(fs::read(pair.there.data("in/x/renamed")).unwrap(), b"a");
    assert_eq!(fs::read(pair.there.data("in/b c")).unwrap(), b"bb");

    let both = Order { id: Uuid::now_v7(), source: vec!["/data/run".into()], ..order.clone() };
    assert!(problem(pair.api.create_transfer(&both)).reason.contains("and not both"));
    let twice = vec![file("/data/run/a", "data/a"), file("/data/run/a", "data/b")];
    let twice = Order { id: Uuid::now_v7(), files: twice, ..order.clone() };
    assert!(problem(pair.api.create_transfer(&twice)).reason.contains("named twice as a source"));
    let scattered = vec![file("/data/run/a", "data/a"), file("/other/a", "data/b")];
    let scattered = Order { id: Uuid::now_v7(), files: scattered, ..order };
    assert!(problem(pair.api.create_transfer(&scattered)).reason.contains("in one export"));
}

/// The digests of `123456789`: CRC-32C, Adler-32 without its leading zero, and MD5.
const RIGHT: [&str; 3] = ["crc32c:e3069283", "ADLER32:91e01de", "md5:25f9e794323b453885f5181f1b624d0b"];
const WRONG: [&str; 3] = ["crc32c:e3069284", "adler32:091e01df", "md5:25f9e794323b453885f5181f1b624d0c"];

/// Orders files from `from` to `to`, of which four differ from the order; they must be named, and must not be at the target.
fn assert_only_ordered_files_arrive(
    api: &Api,
    (from, source): (&Node, &str),
    (to, target): (&Node, &str),
    base: &Order,
) {
    fs::create_dir_all(from.data("out")).unwrap();
    let file = |name: &str, bytes: Option<u64>, checksum: Option<&str>| {
        fs::write(from.data(&format!("out/{name}")), "123456789").unwrap();
        let (source, target) = (format!("{source}/out/{name}"), format!("{target}/in/{name}"));
        OrderFile { source, target, bytes, checksum: checksum.map(str::to_owned) }
    };
    let mut files: Vec<OrderFile> =
        RIGHT.iter().enumerate().map(|(at, sum)| file(&format!("right{at}"), Some(9), Some(sum))).collect();
    files.extend(WRONG.iter().enumerate().map(|(at, sum)| file(&format!("wrong{at}"), None, Some(sum))));
    files.push(file("longer", Some(10), None));
    for what in ["arriving", "there already"] {
        let id = Uuid::now_v7();
        let order = Order { id, source: Vec::new(), target: String::new(), files: files.clone(), ..base.clone() };
        api.create_transfer(&order).unwrap();
        ended(api, id);
        let mut files = api.files(id, 0, 100).unwrap().files;
        files.sort_by_key(|file| file.index);
        let faults: Vec<_> = files.iter().map(|file| (file.done, file.fault.as_deref())).collect();
        let wanted = [[(true, None); 3].as_slice(), &[(false, Some("integrity")); 4]].concat();
        assert_eq!(faults, wanted, "{what}, from {source} to {target}: {files:?}");
        // What a server began to receive is removed when it sees that no more will arrive.
        until(&format!("only what was ordered is there: {what}, from {source} to {target}"), LONG, || {
            let mut there: Vec<_> =
                fs::read_dir(to.data("in")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            there.sort();
            there == ["right0", "right1", "right2"]
        });
    }
}

#[test]
fn a_file_that_is_not_what_was_ordered_is_not_put_in_place() {
    let pair = pair();
    let far = pair.there.at("data");
    assert_only_ordered_files_arrive(&pair.api, (&pair.here, "/data"), (&pair.there, &far), &pair.push("", ""));
    let pair = self::pair();
    let far = pair.there.at("data");
    assert_only_ordered_files_arrive(&pair.api, (&pair.there, &far), (&pair.here, "/data"), &pair.pull("", ""));
}

#[test]
fn a_file_of_a_server_that_is_not_what_was_ordered_is_not_put_in_place() {
    let far = https::setup("").start();
    let here = || plain().arg("--cacert").arg(far.data("").with_file_name("ca.pem")).start();
    let credentials = Some(Credentials { token: Some(full_key(&far)), ..Credentials::default() });
    let base = Order { credentials, ..Order::new(Uuid::now_v7(), "", "") };
    let at = |directory: &str| format!("https://127.0.0.1:{}/data/{directory}", far.port);
    let sender = here();
    let api_of = |node: &Node| api(node, &full_key(node));
    assert_only_ordered_files_arrive(&api_of(&sender), (&sender, "/data"), (&far, at("").trim_end_matches('/')), &base);
    fs::remove_dir_all(far.data("in")).unwrap();
    let receiver = here();
    assert_only_ordered_files_arrive(
        &api_of(&receiver),
        (&far, at("").trim_end_matches('/')),
        (&receiver, "/data"),
        &base,
    );
}
