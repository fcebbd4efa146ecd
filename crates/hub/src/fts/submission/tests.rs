//! Tests of submissions.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::fts::forms::BASE_ID;

fn order(document: Value) -> Result<FtsSubmission, String> {
    let submission: Submission = serde_json::from_value(document).unwrap();
    submission.order(&Member::user("ann", "astro"), "oauth2").map_err(|refusal| refusal.reason)
}

fn with(params: Value) -> Value {
    json!({"files": [{"sources": ["davs://a/1"], "destinations": ["davs://b/1", "davs://c/1"], "metadata": "x",
        "filesize": 7, "checksum": "ADLER32:1234"}], "params": params})
}

fn file(more: Value) -> Value {
    let mut file = json!({"sources": ["davs://a/1"], "destinations": ["davs://b/1"]});
    file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"files": [file]})
}

#[test]
fn a_submission_becomes_an_order() {
    let submitted = order(with(json!({"retry": -1, "priority": 9, "overwrite": true, "max_time_in_queue": "2h",
        "job_metadata": {"issuer": "rucio"}, "credential": "s3cret", "nobody_knows": [1]})))
    .unwrap();
    let order = submitted.order;
    assert_eq!(order.files.len(), 2, "one for each destination");
    assert_eq!((order.priority, order.options.retries, order.options.queue_for_s), (Some(5), Some(0), Some(7200)));
    assert!(order.options.overwrite && !order.options.multihop);
    assert_eq!(order.files[0].metadata["label"], "x");
    assert_eq!((order.files[0].bytes, order.files[0].checksum.as_deref()), (Some(7), Some("ADLER32:1234")));
    assert_eq!((&order.metadata["issuer"], &order.metadata["auth_method"]), (&json!("rucio"), &json!("oauth2")));
    assert_eq!((submitted.facts.source_se.as_str(), submitted.facts.dest_se.as_str()), ("davs://a", "davs://b"));
    assert!(!submitted.facts.params.contains_key("credential"));
}

#[test]
fn a_deterministic_id_is_made_of_the_vo_and_the_sid() {
    let params = json!({"id_generator": "deterministic", "sid": "abc"});
    let (a, b) = (order(with(params.clone())).unwrap().order.id, order(with(params)).unwrap().order.id);
    assert_eq!(a, b);
    assert_eq!(a, Some(Uuid::new_v5(&Uuid::new_v5(&BASE_ID, b"astro"), b"abc")));
    assert!(order(with(json!({"id_generator": "deterministic"}))).unwrap_err().contains("needs a sid"));
}

#[test]
fn tokens_belong_to_the_storages_of_their_file() {
    let submitted = order(json!({"files": [{"sources": ["davs://a/1", "davs://b/1"], "destinations": ["davs://c/1"],
        "source_tokens": ["A", "B"], "destination_tokens": ["C"]}, {"sources": ["davs://a/2"], "destinations": ["davs://c/2"]}]}))
    .unwrap();
    let pair = |source: &str| FileTokens { source: source.into(), target: "C".into() };
    assert_eq!(submitted.tokens, [vec![pair("A"), pair("B")], vec![]]);
    assert!(!format!("{submitted:?}").contains("\"A\""), "tokens are not printed");
    assert!(!serde_json::to_string(&submitted.facts).unwrap().contains("\"A\""), "nor kept with the job");
}

#[test]
fn a_wrong_submission_is_refused_with_the_reason() {
    assert!(order(json!({"files": [{"sources": ["davs://a/1"]}]})).unwrap_err().contains("file 0: it needs"));
    assert_eq!(order(with(json!({"max_time_in_queue": 3}))).unwrap().order.options.queue_for_s, Some(10_800));
    for (params, expected) in [
        (json!({"max_time_in_queue": "soon"}), "is not a valid time"),
        (
            json!({"overwrite": true, "overwrite_on_retry": true}),
            "overwrite and overwrite_on_retry exclude one another",
        ),
        (json!({"overwrite_hop": true}), "is for multihop jobs"),
        (json!({"overwrite_when_only_on_disk": true}), "needs archive_timeout"),
        (json!({"bring_online": 60}), "bring_online: no tape"),
        (json!({"copy_pin_lifetime": 1}), "no tape"),
        (json!({"archive_timeout": "60"}), "no tape"),
        (json!({"ipv4": true, "ipv6": true}), "exclude one another"),
        (json!({"verify_checksum": "maybe"}), "none, source, target or both"),
        (json!({"reuse": true}), "one destination storage"),
        (json!({"reuse": "Y", "multihop": true}), "does not go together"),
        (json!({"job_metadata": "x".repeat(2047)}), "job_metadata has 2049 bytes, and may have 2048 at most"),
        (json!({"job_metadata": [1]}), "an object, or a text"),
    ] {
        let reason = order(with(params.clone())).unwrap_err();
        assert!(reason.contains(expected), "{params}: {reason}");
    }
    for (more, expected) in [
        (json!({"selection_strategy": "best"}), "\"best\" is none of auto, orderly"),
        (json!({"scitag": 64}), "not in 65 to 65535"),
        (json!({"filesize": -1}), "a number of bytes"),
        (json!({"metadata": {"x": "y".repeat(4096)}}), "4096 at most"),
        (json!({"staging_metadata": {"x": "y".repeat(1024)}}), "1024 at most"),
        (json!({"source_tokens": ["A"]}), "1 and 0 came for 1 and 1"),
        (json!({"source_tokens": ["A", "B"], "destination_tokens": ["C"]}), "2 and 1 came for 1 and 1"),
        (json!({"source_tokens": ["A\r\nX: y"], "destination_tokens": ["C"]}), "a token is a word"),
    ] {
        let reason = order(file(more.clone())).unwrap_err();
        assert!(reason.contains("file 0: ") && reason.contains(expected), "{more}: {reason}");
        assert!(!reason.contains("X: y"), "{reason}");
    }
    for params in [json!({"bring_online": -1, "archive_timeout": -1, "copy_pin_lifetime": 0}), json!(null)] {
        assert!(order(with(params)).is_ok());
    }
    assert!(
        order(file(json!({"selection_strategy": "orderly", "scitag": 66}))).unwrap().order.options.scitag == Some(66)
    );
}
