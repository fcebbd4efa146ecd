//! `/config`, bans of users, cancellation of many jobs and the optimizer, by FTS's API: the hub's own commands show the changes.

use serde_json::{Value, json};

use super::ask;
use crate::hub::Hub;
use crate::wait::{LONG, until_some};

/// A hub with a described storage, and the keys of an admin and of a user.
fn hub() -> (Hub, String, String) {
    let hub = Hub::start(&["--plain"]);
    let admin = hub.grant(&["--role", "admin", "--name", "root"]);
    let user = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
    let limits = json!({"davs://dav.example": {"se_info": {"inbound_max_active": 7, "outbound_max_throughput": 100, "tpc_support": "FULL"}}});
    assert_eq!(ask(&hub, &admin, "POST", "/config/se", Some(&limits)).0, 200);
    (hub, admin, user)
}

#[track_caller]
fn refused(answer: (u64, Value), status: u64, expected: &str) {
    let message = answer.1["message"].as_str().unwrap_or_default();
    assert!(answer.0 == status && message.contains(expected) && !message.contains('\n'), "{answer:?}");
}

#[test]
fn fts_settings_change_the_hub_or_are_refused_with_a_reason() {
    let (hub, admin, user) = hub();
    let ask_admin = |method: &str, path: &str, body: Option<Value>| ask(&hub, &admin, method, path, body.as_ref());
    let links = ask_admin("GET", "/config/links", None).1;
    assert_eq!((&links[0]["source"], &links[0]["max_active"]), (&json!("*"), &json!(7)));
    let name = links[0]["symbolicname"].as_str().unwrap().to_owned();

    let link =
        json!({"source": "davs://dav.example", "destination": "*", "max_active": 3, "min_active": 0, "nostreams": 0});
    assert_eq!(ask_admin("POST", "/config/links", Some(link.clone())).0, 200);
    let se = ask_admin("GET", "/config/se?se=davs://dav.example", None).1;
    assert_eq!(se["davs://dav.example"]["se_info"]["outbound_max_active"], 3);
    assert_eq!(ask_admin("GET", &format!("/config/links/{name}"), None).1["max_active"], 7);
    assert_eq!(ask_admin("DELETE", &format!("/config/links/{}", name.replace(':', "%3A")), None).0, 204);
    assert_eq!(ask_admin("GET", "/config/links/%ff", None).0, 400);
    assert_eq!(ask_admin("GET", &format!("/config/links/{name}"), None).0, 404);
    for (more, expected) in [
        (json!({"destination": "davs://b.example"}), "no limit for one pair"),
        (json!({"source": "*"}), "no limit for all storages"),
        (json!({"nostreams": 8}), "the hub has no nostreams"),
        (json!({"min_active": 2}), "the hub has no min_active"),
        (json!({"symbolicname": "mine"}), "is called from:"),
        (json!({"max_active": 0}), "1 or more"),
    ] {
        let mut link = link.clone();
        link.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(ask_admin("POST", "/config/links", Some(link)), 400, expected);
    }

    let share = json!({"source": "*", "destination": "*", "vo": "astro", "share": 3});
    assert_eq!(ask_admin("POST", "/config/shares", Some(share.clone())).0, 200);
    assert_eq!(ask_admin("GET", "/config/shares", None).1[0]["share"], 3.0);
    refused(
        ask_admin(
            "POST",
            "/config/shares",
            Some(json!({"source": "davs://a", "destination": "*", "vo": "astro", "share": 3})),
        ),
        400,
        "one share over all pairs",
    );
    let activities = json!({"vo": "astro", "active": true, "share": [{"production": 0.7}, {"default": 0.3}]});
    assert_eq!(ask_admin("POST", "/config/activity_shares", Some(activities)).0, 200);
    assert_eq!(ask_admin("GET", "/config/activity_shares/astro", None).1["share"]["production"], 0.7);
    refused(
        ask_admin("POST", "/config/activity_shares", Some(json!({"vo": "astro", "active": false, "share": {"a": 1}}))),
        400,
        "delete them",
    );
    assert_eq!(ask_admin("DELETE", "/config/activity_shares/astro", None).0, 204);
    refused(ask_admin("GET", "/config/activity_shares/astro", None), 404, "no shares of activities");

    refused(ask_admin("POST", "/config/global", Some(json!({"retry": 5}))), 400, "parameters of a submission");
    refused(ask_admin("POST", "/config/authorize", Some(json!({"dn": "x"}))), 400, "longhaul hub grant");
    refused(
        ask_admin("POST", "/config/se", Some(json!({"davs://dav.example": {"se_info": {"udt": true}}}))),
        400,
        "the hub has no udt",
    );
    refused(ask_admin("POST", "/config/drain", Some(json!({"hostname": "other", "drain": true}))), 404, "longhaul");
    refused(ask(&hub, &user, "POST", "/config/shares", Some(&share)), 403, "needs the role admin");
    refused(ask(&hub, &user, "GET", "/config/audit", None), 403, "needs the role operator");

    let audit = ask_admin("GET", "/config/audit", None).1;
    let actions: Vec<_> = audit.as_array().unwrap().iter().map(|done| done["action"].as_str().unwrap()).collect();
    assert_eq!(actions[..2], ["DELETE /config/activity_shares/astro", "POST /config/activity_shares"], "{audit}");
    assert_eq!((actions.len(), &audit[0]["dn"]), (6, &json!("/CN=root")), "what was refused is not in it: {audit}");
}

#[test]
fn a_drained_hub_begins_nothing_and_the_optimizer_states_the_reason() {
    let (hub, admin, user) = hub();
    assert_eq!(
        ask(&hub, &admin, "POST", "/config/drain", Some(&json!({"hostname": "longhaul", "drain": true}))).0,
        204
    );
    let job = json!({"files": [{"sources": ["davs://dav.example/1"], "destinations": ["davs://b.example/1"], "filesize": 10}]});
    let id = ask(&hub, &user, "POST", "/jobs", Some(&job)).1["job_id"].as_str().unwrap().to_owned();
    let pair = until_some("the optimizer reports the pair", LONG, || {
        let all = ask(&hub, &admin, "GET", "/optimizer/evolution?source_se=davs://dav.example", None).1;
        let pair = all.get(0)?.clone();
        pair["rationale"].as_str().is_some_and(|why| why.contains("is stopped")).then_some(pair)
    });
    assert_eq!(
        (&pair["dest_se"], &pair["queue_size"], &pair["active"]),
        (&json!("https://b.example"), &json!(1), &json!(0))
    );
    assert!(pair["rationale"].as_str().unwrap().contains("root drains the hub"), "{pair}");
    assert_eq!(ask(&hub, &admin, "GET", "/optimizer/current", None).1[0]["source_se"], "davs://dav.example");
    assert_eq!(ask(&hub, &admin, "GET", "/optimizer", None), (200, json!(true)));
    refused(ask(&hub, &admin, "POST", "/optimizer/current", Some(&json!({"active": 5}))), 405, "no method");

    refused(ask(&hub, &user, "DELETE", "/jobs/all", None), 403, "needs the role");
    let (status, ended) = ask(&hub, &admin, "DELETE", "/jobs/vo/astro", None);
    assert_eq!((status, ended), (200, json!({"affected_files": 1, "affected_dm": 0, "affected_jobs": 1})));
    assert_eq!(ask(&hub, &admin, "GET", &format!("/jobs/{id}/job_state"), None), (200, json!("CANCELED")));
    assert_eq!(ask(&hub, &admin, "DELETE", "/jobs/all", None).1["affected_jobs"], 0);
    assert_eq!(
        ask(&hub, &admin, "POST", "/config/drain", Some(&json!({"hostname": "longhaul", "drain": false}))).0,
        204
    );
}

#[test]
fn a_banned_user_has_no_rights_until_the_ban_ends() {
    let (hub, admin, user) = hub();
    let job = json!({"files": [{"sources": ["davs://dav.example/1"], "destinations": ["davs://b.example/1"]}]});
    let ban_dn = json!({"user_dn": "/CN=ann", "message": "asks too often"});
    let ban_se = json!({"storage": "davs://dav.example", "status": "wait", "allow_submit": true});
    assert_eq!(ask(&hub, &admin, "POST", "/ban/se", Some(&ban_se)).0, 200);
    let id = ask(&hub, &user, "POST", "/jobs", Some(&job)).1["job_id"].clone();
    refused(ask(&hub, &user, "POST", "/ban/dn", Some(&ban_dn)), 403, "needs the role admin");
    assert_eq!(ask(&hub, &admin, "POST", "/ban/dn", Some(&ban_dn)), (200, json!([id])));
    refused(ask(&hub, &user, "GET", "/whoami", None), 403, "ann is banned: asks too often");
    assert_eq!(ask(&hub, &admin, "GET", "/ban/dn", None).1[0]["dn"], "/CN=ann");
    refused(ask(&hub, &admin, "POST", "/ban/dn", Some(&json!({"user_dn": "/CN=root"}))), 409, "ban yourself");
    assert_eq!(ask(&hub, &admin, "DELETE", "/ban/dn?user_dn=%2FCN%3Dann", None).0, 204);
    assert_eq!(ask(&hub, &user, "GET", "/whoami", None).0, 200);
}
