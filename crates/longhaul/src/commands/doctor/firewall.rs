//! Whether this host's own packet filter lets clients reach the node's port (nftables; iptables of today is a front end of it).
//!
//! A rule may accept by much more than a port (addresses, interfaces, states). So only one case is a warning: a chain drops what no rule
//! accepts, and neither its rules nor those of a chain that it jumps to accept the port. Whether clients elsewhere get through, only a peer can tell.

use serde_json::Value;

use super::Diagnosis;
use crate::commands::tool;

const CHECK: &str = "firewall";

/// Asks nftables for its rules, and judges them.
pub fn check(port: u16) -> Diagnosis {
    match tool::output("nft", &["-j", "list", "ruleset"]) {
        Ok(text) => judge(&text, port),
        Err(why) => Diagnosis::unknown(
            CHECK,
            format!("the rules of nftables cannot be read: {why}"),
            "run the command as root where nftables is installed; --peer tests the way from outside in any case",
        ),
    }
}

fn judge(text: &str, port: u16) -> Diagnosis {
    let Ok(rules) = serde_json::from_str::<Value>(text) else {
        return Diagnosis::unknown(
            CHECK,
            "nft prints no JSON",
            "run `nft list ruleset`, and look for the port yourself",
        );
    };
    let all: Vec<&Value> = rules["nftables"].as_array().into_iter().flatten().collect();
    let dropping = all
        .iter()
        .map(|entry| &entry["chain"])
        .find(|chain| chain["hook"] == "input" && chain["policy"] == "drop" && !accepts(&all, chain, port));
    match dropping {
        None => Diagnosis::well(CHECK, format!("no chain of nftables drops what comes to TCP port {port}")),
        Some(chain) => {
            let [family, table, name] = ["family", "table", "name"].map(|field| chain[field].as_str().unwrap_or("?"));
            Diagnosis::warning(
                CHECK,
                format!(
                    "the chain {name} of table {family} {table} drops what comes in, and no rule accepts TCP port {port}"
                ),
                format!(
                    "nft add rule {family} {table} {name} tcp dport {port} accept; then write it to the firewall's configuration"
                ),
            )
        }
    }
}

/// The parts of a rule: what it compares, and what it does.
fn parts(rule: &Value) -> impl Iterator<Item = &Value> {
    rule["expr"].as_array().into_iter().flatten()
}

/// The rules of a chain, and of all chains that it jumps to.
fn rules_from<'a>(all: &[&'a Value], chain: &'a Value) -> Vec<&'a Value> {
    let of_table = |rule: &&Value| rule["family"] == chain["family"] && rule["table"] == chain["table"];
    let table: Vec<&'a Value> = all.iter().map(|entry| &entry["rule"]).filter(of_table).collect();
    let (mut found, mut chains, mut at) = (Vec::new(), vec![&chain["name"]], 0);
    while let Some(name) = chains.get(at).copied() {
        at += 1;
        for rule in table.iter().filter(|rule| rule["chain"] == *name) {
            found.push(*rule);
            let targets = parts(rule).flat_map(|part| [&part["jump"]["target"], &part["goto"]["target"]]);
            let new: Vec<&Value> = targets.filter(|target| target.is_string() && !chains.contains(target)).collect();
            chains.extend(new);
        }
    }
    found
}

/// Whether a rule that packets of a chain come to accepts a port.
fn accepts(all: &[&Value], chain: &Value, port: u16) -> bool {
    rules_from(all, chain).into_iter().any(|rule| {
        let parts = || parts(rule);
        let is_accept = parts().any(|part| part.get("accept").is_some());
        let matches = || parts().map(|part| &part["match"]).filter(|one| one.is_object());
        let is_ports = |one: &&Value| {
            let payload = &one["left"]["payload"];
            payload["field"] == "dport" && payload["protocol"] != "udp"
        };
        let ports = matches().find(is_ports);
        is_accept && ports.map_or_else(|| matches().all(names_clients), |ports| covers(&ports["right"], port))
    })
}

/// Whether a part of a rule names clients, by address or interface: such a rule may accept them at every port.
fn names_clients(part: &Value) -> bool {
    let field = &part["left"]["payload"]["field"];
    let key = &part["left"]["meta"]["key"];
    let is_interface = (*key == "iif" || *key == "iifname") && part["right"] != "lo";
    *field == "saddr" || *field == "daddr" || is_interface
}

/// Whether a number, a range, or a set of them has a port.
fn covers(right: &Value, port: u16) -> bool {
    let number = |value: &Value| value.as_u64();
    match (right.as_u64(), right["range"].as_array(), right["set"].as_array()) {
        (Some(one), ..) => one == u64::from(port),
        (_, Some(ends), _) => {
            let ends: Vec<u64> = ends.iter().filter_map(number).collect();
            matches!(ends[..], [from, to] if (from..=to).contains(&u64::from(port)))
        }
        (.., Some(set)) => set.iter().any(|one| covers(one, port)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::CheckStatus;
    use super::*;

    fn ruleset(policy: &str, right: &Value) -> String {
        let chain =
            json!({"chain": {"family": "inet", "table": "filter", "name": "input", "hook": "input", "policy": policy}});
        let established = json!({"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [
            {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established"]}}, {"accept": null}
        ]}});
        let accept = json!({"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [
            {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": right}}, {"accept": null}
        ]}});
        let own = json!({"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [
            {"match": {"op": "==", "left": {"meta": {"key": "iif"}}, "right": "lo"}}, {"accept": null}
        ]}});
        json!({"nftables": [{"metainfo": {"version": "1"}}, chain, established, own, accept]}).to_string()
    }

    #[test]
    fn rules_of_a_chain_count_that_is_jumped_to() {
        let at = |chain: &str, last: Value| {
            let port = json!({"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 7411}});
            json!({"rule": {"family": "inet", "table": "filter", "chain": chain, "expr": [port, last]}})
        };
        let chain =
            json!({"chain": {"family": "inet", "table": "filter", "name": "input", "hook": "input", "policy": "drop"}});
        let judged = |rules: &[Value]| {
            let all: Vec<Value> = std::iter::once(chain.clone()).chain(rules.iter().cloned()).collect();
            judge(&json!({"nftables": all}).to_string(), 7411).status
        };
        let accept = |chain| at(chain, json!({"accept": null}));
        let jump = |from, to: &str| at(from, json!({"jump": {"target": to}}));
        assert_eq!(judged(&[accept("forward")]), CheckStatus::Warning, "no packet to this host comes there");
        assert_eq!(judged(&[jump("input", "services"), accept("services")]), CheckStatus::Well);
        let goto = at("services", json!({"goto": {"target": "nodes"}}));
        assert_eq!(judged(&[jump("input", "services"), goto, accept("nodes")]), CheckStatus::Well);
        assert_eq!(judged(&[jump("input", "a"), jump("a", "b"), jump("b", "a")]), CheckStatus::Warning, "ends");
    }

    #[test]
    fn only_a_chain_that_drops_a_port_that_no_rule_accepts_draws_a_warning() {
        let status = |policy, right: Value| judge(&ruleset(policy, &right), 7411).status;
        assert_eq!(status("drop", json!(22)), CheckStatus::Warning);
        assert_eq!(status("accept", json!(22)), CheckStatus::Well);
        for right in [
            json!(7411),
            json!({"range": [7000, 8000]}),
            json!({"set": [22, 7411]}),
            json!({"set": [{"range": [7411, 7411]}]}),
        ] {
            assert_eq!(status("drop", right.clone()), CheckStatus::Well, "{right}");
        }
        assert_eq!(status("drop", json!({"range": [1, 7410]})), CheckStatus::Warning);
        let warning = judge(&ruleset("drop", &json!(22)), 7411);
        assert!(warning.remedy.unwrap().contains("nft add rule inet filter input tcp dport 7411 accept"));
        assert_eq!(judge("", 7411).status, CheckStatus::Unknown);
        assert_eq!(judge("{\"nftables\": []}", 7411).status, CheckStatus::Well);
    }
}
