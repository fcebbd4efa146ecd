//! Reports for the collectors of the WLCG: storage (Storage Resource Reporting 4.2) and network traffic (site network monitoring).
//! A client that may read the metrics of this node may read these.

use model::id::Uuid;
use serde_json::{Value, json};
use web::date;

use super::answer::send;
use crate::access::ExportSpace;
use crate::clock::now;
use crate::http::refused::{Outcome, refuse};
use crate::http::request_context::RequestContext;

/// The capabilities of the report's vocabulary that a node has.
const CAPABILITIES: [&str; 4] =
    ["data.access.flatfiles", "data.access.streaming", "data.management.transfer", "data.transfer"];

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// GET /api/v1/srr.
pub(super) fn srr(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let access_control = &context.service.access_control;
    let is_monitoring = access_control.may_read_metrics(context.exchange.peer().ip());
    let spaces = access_control.export_spaces((!is_monitoring).then(|| context.access()));
    let state = if context.service.services.is_stopping() { "draining" } else { "open" };
    let report = report(&host_name(), &context.origin(), &spaces, state, now().seconds);
    send(context, 200, &report)
}

fn report(name: &str, origin: &str, spaces: &[ExportSpace], state: &str, now: i64) -> Value {
    let mut devices = Vec::new();
    let mut total = 0;
    let mut used = 0;
    for share in spaces {
        if !devices.contains(&share.device) {
            devices.push(share.device);
            total += share.total_bytes;
            used += share.total_bytes.saturating_sub(share.free_bytes);
        }
    }
    let shares: Vec<Value> = spaces
        .iter()
        .map(|share| {
            json!({
                "name": share.export, "id": share.export, "timestamp": now,
                "totalsize": share.total_bytes, "usedsize": share.total_bytes.saturating_sub(share.free_bytes),
                "vos": share.communities, "path": [format!("/{}", share.export)], "accesslatency": "online",
                "accessmode": if share.is_writable { vec!["read", "write"] } else { vec!["read"] },
                "servingstate": state, "retentionpolicy": "replica", "assignedendpoints": ["https"],
            })
        })
        .collect();
    let names: Vec<&str> = spaces.iter().map(|share| share.export.as_str()).collect();
    json!({"storageservice": {
        "name": name, "id": name, "servicetype": "longhaul", "implementation": "longhaul",
        "implementationversion": env!("CARGO_PKG_VERSION"), "qualitylevel": "production", "capabilities": CAPABILITIES,
        "latestupdate": now,
        "storagecapacity": {"online": {"totalsize": total, "usedsize": used, "reservedsize": 0}},
        "storageendpoints": [{
            "name": "https", "id": "https", "endpointurl": format!("{origin}/"), "interfacetype": "https",
            "interfaceversion": "1.1", "capabilities": CAPABILITIES, "qualitylevel": "production", "assignedshares": names,
        }],
        "storageshares": shares,
    }})
}

/// GET /api/v1/site-network.
pub(super) fn network(context: &mut RequestContext<'_>, _: Option<Uuid>) -> Outcome {
    let rates = context.service.services.nics.rates();
    let rates = rates
        .map_err(|error| refuse(500, format!("the counters of this host's interfaces cannot be read: {error}")))?;
    let name = host_name();
    let monitored: Vec<String> = rates.interfaces.iter().map(|interface| format!("{name}_{interface}")).collect();
    let report = json!({
        "Description": format!("Network statistics for {name}"),
        "UpdatedLast": date::rfc3339_us(now()),
        "InBytesPerSec": rates.received,
        "OutBytesPerSec": rates.sent,
        "UpdateInterval": format!("{} seconds", rates.span.as_secs()),
        "MonitoredInterfaces": monitored,
    });
    send(context, 200, &report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_several_exports_is_counted_once() {
        let share = |export: &str, device| ExportSpace {
            export: export.into(),
            is_writable: export == "a",
            device,
            total_bytes: 100,
            free_bytes: 40,
            communities: vec!["ska".into()],
        };
        let report = report("h", "https://h:1", &[share("a", 1), share("b", 1), share("c", 2)], "open", 7);
        let service = &report["storageservice"];
        assert_eq!(service["storagecapacity"]["online"], json!({"totalsize": 200, "usedsize": 120, "reservedsize": 0}));
        assert_eq!(service["storageendpoints"][0]["assignedshares"], json!(["a", "b", "c"]));
        let first = &service["storageshares"][0];
        assert_eq!((&first["path"], &first["usedsize"]), (&json!(["/a"]), &json!(60)));
        // The fields that the schema requires (version 4.2).
        for name in
            ["name", "implementation", "implementationversion", "storagecapacity", "storageendpoints", "storageshares"]
        {
            assert!(!service[name].is_null(), "{name}");
        }
        for name in ["timestamp", "totalsize", "usedsize", "vos"] {
            assert!(!first[name].is_null(), "{name}");
        }
    }
}
