//! COPY requests of existing clients, and malformed ones.

use super::*;
use proptest::prelude::*;

const SOURCE: (&str, &str) = ("source", "davs://a:1094/data/f");

fn order(headers: &[(&'static str, &'static str)]) -> Result<CopyRequest, BadRequest> {
    CopyRequest::from_headers([&[SOURCE], headers].concat())
}

#[test]
fn the_pull_of_gfal2_is_parsed() {
    let headers = [
        ("X-Number-Of-Streams", "3"),
        ("Secure-Redirection", "1"),
        ("ClientInfo", "job-id=a%20b;file-id=1;retry=0"),
        ("Credential", "none"),
        ("RequireChecksumVerification", "false"),
        ("TransferHeaderAuthorization", "Bearer t"),
        ("transferheaderX-Request-Id", "1"),
        ("TransferHeaderHost", "evil"),
        ("TransferHeaderContent-Length", "0"),
        ("Overwrite", "F"),
    ];
    let order = order(&headers).unwrap();
    assert_eq!(order.direction.remote().as_str(), "https://a:1094/data/f");
    assert!(matches!(order.direction, Direction::Pull { .. }));
    assert_eq!((order.streams, order.overwrite, order.require_checksum), (Some(3), false, Some(false)));
    assert_eq!(order.client_info.as_deref(), Some("job-id=a b;file-id=1;retry=0"));
    let passed = [("Authorization", "Bearer t"), ("X-Request-Id", "1")];
    assert_eq!(order.transfer_headers, passed.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert!(!format!("{order:?}").contains("Bearer"), "{order:?}");
}

#[test]
fn the_push_of_davix_is_parsed() {
    let order = CopyRequest::from_headers([("Destination", "http://b/data/g"), ("X-Number-Of-Streams", "0")]).unwrap();
    assert!(matches!(&order.direction, Direction::Push { destination } if destination.port() == 80));
    assert_eq!((order.streams, order.overwrite, order.require_checksum, order.no_head), (None, true, None, false));
}

#[test]
fn malformed_requests_are_refused_with_a_remedy() {
    let words = |result: Result<CopyRequest, BadRequest>| {
        let bad = result.unwrap_err();
        assert_eq!(bad.status, 400);
        bad.reason
    };
    assert!(words(CopyRequest::from_headers([])).contains("neither Source nor Destination"));
    assert!(words(order(&[("Destination", "http://b/g")])).contains("both Source and Destination"));
    assert!(words(order(&[SOURCE])).contains("more than once"));
    assert!(words(order(&[("Credential", "gridsite")])).contains("TransferHeaderAuthorization"));
    for (name, value) in [
        ("Overwrite", "yes"),
        ("Overwrite", ""),
        ("RequireChecksumVerification", "1"),
        ("X-Number-Of-Streams", "101"),
        ("X-Number-Of-Streams", "-1"),
        ("TransferHeader", "x"),
        ("TransferHeaderA b", "x"),
        ("TransferHeaderA", "x\r\nHost: y"),
        ("Copy-Header", "x"),
        ("Copy-Header", "x: y\nz"),
    ] {
        words(order(&[(name, value)]));
    }
    for source in ["ftp://a/f", "/data/f", "file:///etc/passwd", "https://u:p@a/f", "root://a//f", ""] {
        words(CopyRequest::from_headers([("Source", source)]));
    }
    let many: Vec<(&str, &str)> =
        std::iter::repeat_n(("TransferHeaderX-Amz-A", "1"), TRANSFER_HEADERS_MAX + 1).collect();
    words(CopyRequest::from_headers(many.into_iter().chain([SOURCE])));
}

#[test]
fn flags_marks_and_digests_are_parsed() {
    assert!(order(&[("Copy-Flags", "x, NoHead")]).unwrap().no_head);
    assert!(CopyRequest::from_headers([("Source", "s3://b/f?X-Amz-Signature=a")]).unwrap().no_head);
    assert_eq!(order(&[("SciTag", "449")]).unwrap().scitag, SciTag::new(7, 1));
    assert_eq!(order(&[("SciTag", "64")]).unwrap().scitag, Some(SciTag::UNMARKED));
    assert_eq!(order(&[("SciTag", "nonsense")]).unwrap().scitag, Some(SciTag::UNMARKED));
    let passed = order(&[("TransferHeaderSciTag", "449")]).unwrap();
    assert_eq!((passed.scitag, passed.transfer_headers.len()), (None, 1));
    let both = order(&[("TransferHeaderSciTag", "449"), ("SciTag", "452")]).unwrap();
    assert_eq!((both.scitag, both.transfer_headers.len()), (SciTag::new(7, 4), 0));
    let digests = order(&[("Want-Digest", "md5"), ("Want-Digest", "adler32")]).unwrap();
    assert_eq!(digests.want_digest.as_deref(), Some("md5, adler32"));
    assert_eq!(
        order(&[("Copy-Header", "Accept: a:b")]).unwrap().transfer_headers,
        [("Accept".to_owned(), "a:b".to_owned())]
    );
}

#[test]
fn only_known_headers_are_passed_on() {
    for name in
        ["X-Forwarded-For", "Cookie", "Destination", "Depth", "If-Match", "Via", "X-Amz", "x-am\u{e9}-a", "Source"]
    {
        let field = format!("TransferHeader{name}");
        let refused = CopyRequest::from_headers([("Source", "https://a/f"), (field.as_str(), "x")]).unwrap_err();
        assert!(refused.status == 400 && refused.reason.contains("header"), "{refused:?}");
    }
    for name in ["authorization", "X-AMZ-Date", "x-goog-a", "X-Ms-Blob-Type", "X-Auth-Token", "Want-Digest"] {
        let field = format!("TransferHeader{name}");
        assert_eq!(
            CopyRequest::from_headers([("Source", "https://a/f"), (field.as_str(), "x")]).unwrap().transfer_headers,
            [(name.to_owned(), "x".to_owned())]
        );
    }
}

#[test]
fn a_destination_on_the_same_server_is_recognised() {
    for (destination, authority, local) in [
        ("/data/g", "a:7411", true),
        ("http://a:7411/data/g", "a:7411", true),
        ("https://A:443/g", "a", true),
        ("davs://a/g", "a:443", true),
        ("http://a/g", "a:7411", false),
        ("http://b:7411/g", "a:7411", false),
        ("//b/g", "a", false),
        ("g", "a", false),
        ("http://a/g", "", false),
    ] {
        assert_eq!(is_local(destination, authority), local, "{destination} {authority}");
    }
}

proptest! {
    #[test]
    fn any_headers_are_parsed_or_refused(
        text in "((Source|Destination|TransferHeader[a-z]{0,3}|SciTag|Credential|Overwrite): \\PC{0,20}\n){0,5}",
    ) {
        crate::fuzzing::copy(text.as_bytes());
    }
}
