//! curl requests digests: Want-Digest (RFC 3230) and Want-Repr-Digest (RFC 9530), by HEAD and by GET.

use super::NINE;
use crate::case::Case;
use crate::clients::Reply;
use crate::context::CaseContext;

const CURL: &str = "curl";

pub const CASES: &[Case] = &[
    Case::new(CURL, "digest-adler32", "HEAD, `Want-Digest: adler32`", "8 hexadecimal digits", adler32),
    Case::new(CURL, "digest-crc32c", "HEAD, `Want-Digest: crc32c`", "8 hexadecimal digits", crc32c).stock("base64"),
    Case::new(CURL, "digest-md5", "HEAD, `Want-Digest: md5`", "base64", md5),
    Case::new(CURL, "digest-sha", "HEAD, `Want-Digest: sha`, `sha-256`, `sha-512`", "base64", sha).stock("has none"),
    Case::new(CURL, "digest-unixcksum", "HEAD, `Want-Digest: UNIXcksum`", "adler32 instead", unixcksum),
    Case::new(CURL, "digest-choice", "HEAD, `Want-Digest: md5;q=0.3, adler32;q=1`", "adler32 is there", choice),
    Case::new(CURL, "digest-unknown", "HEAD, `Want-Digest: whirlpool`", "200", unknown),
    Case::new(CURL, "digest-get", "GET, `Want-Digest: adler32`", "200, Digest, the body", get),
    Case::new(CURL, "repr-digest", "HEAD, `Want-Repr-Digest: md5=5, sha-256=9`", "Repr-Digest: sha-256", repr_digest)
        .stock("before 6.0: none"),
    Case::new(CURL, "repr-digest-broken", "HEAD, a broken `Want-Repr-Digest`", "200 without a digest", repr_broken),
    Case::new(CURL, "digest-after-put", "PUT, then HEAD with `Want-Digest`", "the digest of what was sent", after_put),
    Case::new(CURL, "digest-after-change", "HEAD, the file changes, HEAD", "the digest of what is there", after_change)
        .stock("knows times by the second only"),
    Case::new(CURL, "digest-missing", "HEAD of nothing, `Want-Digest`", "404", missing),
];

fn head_with(context: &CaseContext, header: &str) -> Reply {
    let dir = context.open();
    dir.put("f", NINE);
    context.curl(&["-I", "-H", header, &dir.http("f")]).expect_status(200).expect_header("content-length", "9")
}

fn adler32(context: &CaseContext) {
    head_with(context, "Want-Digest: adler32").expect_header("digest", "adler32=091e01de");
    head_with(context, "Want-Digest: ADLER32").expect_header("digest", "adler32=091e01de");
}

fn crc32c(context: &CaseContext) {
    head_with(context, "Want-Digest: crc32c").expect_header("digest", "crc32c=e3069283");
}

fn md5(context: &CaseContext) {
    let reply = head_with(context, "Want-Digest: md5");
    assert_eq!(reply.header("digest").map(|d| d.to_lowercase()), Some("md5=jfnnldi7rtif9rgfg2jncw==".into()));
    reply.expect_header_part("digest", "JfnnlDI7RTiF9RgfG2JNCw==");
}

/// The value of an algorithm in a Digest header.
fn value(reply: &Reply, algorithm: &str) -> String {
    let digest = reply.header("digest").unwrap_or_default();
    let found = digest.split(',').filter_map(|one| one.trim().split_once('='));
    let found =
        found.filter(|(name, _)| name.eq_ignore_ascii_case(algorithm)).map(|(_, value)| value.to_owned()).next();
    found.unwrap_or_else(|| panic!("no {algorithm}: {reply:?}"))
}

fn sha(context: &CaseContext) {
    for (algorithm, wanted) in [
        ("sha", "98O8HYCOBHMq32eZZczDTKeuNEE="),
        ("sha-256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
        ("sha-512", "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ=="),
    ] {
        let reply = head_with(context, &format!("Want-Digest: {algorithm}"));
        assert_eq!(value(&reply, algorithm), wanted, "{algorithm}");
    }
}

fn unixcksum(context: &CaseContext) {
    assert_eq!(value(&head_with(context, "Want-Digest: UNIXcksum"), "adler32"), "091e01de");
}

fn choice(context: &CaseContext) {
    assert_eq!(value(&head_with(context, "Want-Digest: md5;q=0.3, adler32;q=1"), "adler32"), "091e01de");
    assert_eq!(value(&head_with(context, "Want-Digest: whirlpool, adler32"), "adler32"), "091e01de");
}

fn unknown(context: &CaseContext) {
    head_with(context, "Want-Digest: whirlpool").expect_status(200);
}

fn get(context: &CaseContext) {
    let dir = context.open();
    dir.put("f", NINE);
    context
        .curl(&["-H", "Want-Digest: adler32", &dir.http("f")])
        .expect_status(200)
        .expect_body(NINE)
        .expect_header("digest", "adler32=091e01de");
}

fn repr_digest(context: &CaseContext) {
    let wanted = "sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:";
    head_with(context, "Want-Repr-Digest: md5=5, sha-256=9").expect_header_part("repr-digest", wanted);
    head_with(context, "Want-Repr-Digest: md5=1").expect_header_part("repr-digest", "md5=:JfnnlDI7RTiF9RgfG2JNCw==:");
}

fn repr_broken(context: &CaseContext) {
    let reply = head_with(context, "Want-Repr-Digest: ;;=,");
    assert_eq!(reply.header("repr-digest"), None, "{reply:?}");
}

fn after_put(context: &CaseContext) {
    let (dir, file) = (context.open(), context.write("f", NINE));
    context.curl(&["-T", &file, &dir.http("f")]).expect_one_of(&[200, 201]);
    let reply = context.curl(&["-I", "-H", "Want-Digest: adler32", &dir.http("f")]).expect_status(200);
    assert_eq!(value(&reply, "adler32"), "091e01de");
}

fn after_change(context: &CaseContext) {
    adler32(context);
    let dir = context.open();
    // As long as before: only the time differs.
    dir.put("f", b"987654321");
    let reply = context.curl(&["-I", "-H", "Want-Digest: adler32", &dir.http("f")]).expect_status(200);
    assert_eq!(value(&reply, "adler32"), "099601de");
}

fn missing(context: &CaseContext) {
    context.curl(&["-I", "-H", "Want-Digest: adler32", &context.open().http("f")]).expect_status(404);
}
