//! Turns rows of the catalogue into documents of Rucio's API.

use model::v1::hub::{DataKind, Grouping, RuleState};
use replicas::DataName;
use serde_json::{Map, Value, json};

use super::errors::RucioError;
use crate::catalogue::to_api;
use crate::database::catalogue::{DataRow, FileRow, ReplicaState, RuleRow};
use crate::topology::{StoragePlace, Topology};

/// `Thu, 01 Jan 2026 12:00:00 UTC`, which clients read as a time.
pub(super) fn time(at: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    at.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string()
}

fn time_or_null(at: Option<i64>) -> Value {
    at.map_or(Value::Null, |at| Value::String(time(at)))
}

pub(super) fn kind_word(kind: DataKind) -> &'static str {
    match kind {
        DataKind::File => "FILE",
        DataKind::Dataset => "DATASET",
        DataKind::Container => "CONTAINER",
    }
}

/// A kind by Rucio's word, in any case, or its first letter.
pub(super) fn kind(word: &str) -> Result<DataKind, RucioError> {
    match word.to_ascii_uppercase().as_str() {
        "FILE" | "F" => Ok(DataKind::File),
        "DATASET" | "D" => Ok(DataKind::Dataset),
        "CONTAINER" | "C" => Ok(DataKind::Container),
        _ => {
            Err(RucioError::new(400, "UnsupportedDIDType", format!("{word:?} is neither FILE, DATASET nor CONTAINER")))
        }
    }
}

/// Scope and name.
pub(super) fn name_of(name: &DataName) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("scope".into(), name.scope().into());
    object.insert("name".into(), name.name().into());
    object
}

/// Scope, name and type.
pub(super) fn child(row: &DataRow) -> Value {
    let mut object = name_of(&row.name);
    object.insert("type".into(), kind_word(row.kind).into());
    if row.kind == DataKind::File {
        object.insert("bytes".into(), row.bytes.into());
        object.insert("adler32".into(), row.adler32.clone().into());
        object.insert("md5".into(), row.md5.clone().into());
    }
    Value::Object(object)
}

/// A name; `total` is the number of files below a dataset or container, and their bytes.
pub(super) fn did(row: &DataRow, total: (i64, i64)) -> Value {
    let mut object = name_of(&row.name);
    object.insert("type".into(), kind_word(row.kind).into());
    object.insert("account".into(), row.account.clone().into());
    if row.kind == DataKind::File {
        object.insert("bytes".into(), row.bytes.into());
        object.insert("length".into(), 1.into());
        object.insert("adler32".into(), row.adler32.clone().into());
        object.insert("md5".into(), row.md5.clone().into());
    } else {
        object.insert("open".into(), row.open.into());
        object.insert("monotonic".into(), row.monotonic.into());
        object.insert("expired_at".into(), time_or_null(row.expires));
        object.insert("length".into(), total.0.into());
        object.insert("bytes".into(), total.1.into());
    }
    Value::Object(object)
}

/// The metadata of a name: Rucio's columns that the catalogue has, and the name's own metadata.
pub(super) fn metadata(row: &DataRow, total: (i64, i64), own: &std::collections::BTreeMap<String, String>) -> Value {
    let is_file = row.kind == DataKind::File;
    let mut object = name_of(&row.name);
    let mut set = |word: &str, value: Value| drop(object.insert(word.into(), value));
    set("account", row.account.clone().into());
    set("did_type", kind_word(row.kind).into());
    set("is_open", if is_file { Value::Null } else { row.open.into() });
    set("monotonic", row.monotonic.into());
    set("hidden", false.into());
    set("bytes", if is_file { row.bytes } else { total.1 }.into());
    set("length", if is_file { 1 } else { total.0 }.into());
    set("adler32", row.adler32.clone().into());
    set("md5", row.md5.clone().into());
    set("guid", Value::Null);
    set("expired_at", time_or_null(row.expires));
    set("created_at", time(row.created).into());
    set("updated_at", time(row.changed).into());
    for (key, text) in own {
        set(key, serde_json::from_str(text).unwrap_or(Value::Null));
    }
    Value::Object(object)
}

pub(super) fn replica_word(state: ReplicaState) -> &'static str {
    match state {
        ReplicaState::Available => "AVAILABLE",
        ReplicaState::Wanted | ReplicaState::Copying => "COPYING",
        ReplicaState::Bad => "BAD",
        ReplicaState::Deleting => "BEING_DELETED",
    }
}

pub(super) fn grouping(word: Option<&str>) -> Result<Grouping, RucioError> {
    match word.unwrap_or("DATASET") {
        "ALL" | "A" => Ok(Grouping::All),
        "DATASET" | "D" => Ok(Grouping::Dataset),
        "NONE" | "N" => Ok(Grouping::File),
        other => Err(RucioError::new(
            409,
            "InvalidReplicationRule",
            format!("{other:?} is no grouping: ALL, DATASET or NONE"),
        )),
    }
}

fn grouping_word(grouping: Grouping) -> &'static str {
    match grouping {
        Grouping::All => "ALL",
        Grouping::Dataset => "DATASET",
        Grouping::File => "NONE",
    }
}

fn state_word(state: RuleState) -> &'static str {
    match state {
        RuleState::Replicating => "REPLICATING",
        RuleState::Ok => "OK",
        RuleState::Stuck => "STUCK",
        RuleState::Suspended => "SUSPENDED",
    }
}

/// A rule of a name.
pub(super) fn rule(row: &RuleRow, name: &DataName, kind: DataKind) -> Value {
    let mut object = name_of(name);
    let mut set = |word: &str, value: Value| drop(object.insert(word.into(), value));
    set("id", row.id.replace('-', "").into());
    set("account", row.account.clone().into());
    set("did_type", kind_word(kind).into());
    set("rse_expression", row.expression.clone().into());
    set("copies", row.copies.into());
    set("state", state_word(to_api::state(row)).into());
    set("locks_ok_cnt", row.ok.into());
    set("locks_replicating_cnt", row.replicating.into());
    set("locks_stuck_cnt", row.stuck.into());
    set("bytes", row.bytes.into());
    set("grouping", grouping_word(row.grouping).into());
    set("expires_at", time_or_null(row.expires));
    set("created_at", time(row.created).into());
    set("updated_at", time(row.fulfilled.unwrap_or(row.created)).into());
    set("stuck_at", Value::Null);
    set("eol_at", Value::Null);
    set("error", row.error.clone().into());
    set("weight", row.weight.clone().into());
    set("source_replica_expression", row.source_expression.clone().into());
    set("activity", row.activity.clone().into());
    set("comments", row.comment.clone().into());
    set("priority", row.priority.into());
    for word in ["locked", "ignore_account_limit", "ignore_availability", "purge_replicas", "split_container"] {
        set(word, false.into());
    }
    for word in ["subscription_id", "child_rule_id", "meta"] {
        set(word, Value::Null);
    }
    set("notification", "NO".into());
    Value::Object(object)
}

/// The host, port and directory where clients find the files of an endpoint over `https`, whatever scheme the hub uses.
pub(super) fn https_address(place: &StoragePlace) -> Option<(String, u16, String)> {
    let (scheme, rest) = place.url.split_once("://")?;
    let default = match scheme {
        "lh" => model::DEFAULT_PORT,
        "https" | "davs" => 443,
        _ => return None,
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, default),
    };
    Some((host.to_owned(), port, format!("{path}/")))
}

/// The address of a copy for Rucio's clients.
pub(super) fn pfn(place: &StoragePlace, name: &DataName, path: Option<&str>) -> Option<String> {
    let (host, port, prefix) = https_address(place)?;
    let default_path = || place.naming.path(name);
    Some(format!("https://{host}:{port}{prefix}{}", path.map_or_else(default_path, str::to_owned)))
}

/// The endpoint, the state and the address of each copy of a file whose endpoint has an `https` address.
pub(super) fn copies<'a>(
    row: &'a FileRow,
    topology: &'a Topology,
) -> impl Iterator<Item = (&'a StoragePlace, ReplicaState, String)> {
    row.replicas.iter().filter_map(|copy| {
        let place = topology.storage.get(&copy.endpoint)?;
        Some((place, copy.state, pfn(place, &row.file.name, copy.path.as_deref())?))
    })
}

/// An endpoint as Rucio's clients expect it: its operations and its protocol.
pub(super) fn rse(place: &StoragePlace, is_closed: bool) -> Value {
    let protocol = https_address(place).map(|(host, port, prefix)| {
        json!({
            "scheme": "https",
            "hostname": host,
            "port": port,
            "prefix": prefix,
            "impl": "rucio.rse.protocols.webdav.Default",
            "extended_attributes": null,
            "domains": {
                "lan": {"read": 1, "write": 1, "delete": 1},
                "wan": {"read": 1, "write": 1, "delete": 1, "third_party_copy_read": 1, "third_party_copy_write": 1},
            },
        })
    });
    let is_tape = place.attributes.get("tape").is_some_and(|text| text == "true");
    json!({
        "rse": place.endpoint,
        "id": id(&place.endpoint),
        "deterministic": true,
        "volatile": false,
        "rse_type": if is_tape { "TAPE" } else { "DISK" },
        "domain": ["lan", "wan"],
        "availability_read": !is_closed,
        "availability_write": !is_closed,
        "availability_delete": !is_closed,
        "availability": if is_closed { 0 } else { 7 },
        "staging_area": false,
        "sign_url": null,
        "verify_checksum": true,
        "lfn2pfn_algorithm": place.naming.word(),
        "credentials": null,
        "qos_class": null,
        "protocols": protocol.into_iter().collect::<Vec<_>>(),
    })
}

/// The id of an endpoint: 32 hexadecimal digits, derived from its name.
pub(super) fn id(endpoint: &str) -> String {
    use sha2::Digest;
    model::hex::encode(&sha2::Sha256::digest(endpoint)[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_format_that_clients_read() {
        assert_eq!(time(1_767_268_800_000), "Thu, 01 Jan 2026 12:00:00 UTC");
    }

    #[test]
    fn a_copy_has_an_https_address() {
        let toml = "[endpoint.a]\nurls = [\"lh://h/\"]\nstorage = { url = \"lh://h/data/c\" }\n\
                    [endpoint.b]\nkind = \"webdav\"\nurls = [\"davs://d:8443/\"]\nstorage = { url = \"davs://d:8443/s\", naming = \"hash\" }";
        let topology = Topology::new(toml::from_str(toml).unwrap()).unwrap();
        let name: DataName = "test:f0".parse().unwrap();
        assert_eq!(pfn(&topology.storage["a"], &name, None).unwrap(), "https://h:7411/data/c/test/f0");
        assert_eq!(pfn(&topology.storage["b"], &name, None).unwrap(), "https://d:8443/s/test/fd/6d/f0");
        assert_eq!(pfn(&topology.storage["b"], &name, Some("old")).unwrap(), "https://d:8443/s/old");
    }
}
