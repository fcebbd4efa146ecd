//! Units of systemd that are made from the unit of a host's node, so that all have its restrictions: `longhaul@NAME.service`, a second node
//! with a network namespace of its own; `longhaul-hub.service` and `longhaul-watch.service`.

use anyhow::{Context, Result};

/// The lines of the node's unit that differ in another one, with their replacements. Each must be found: without one, two services would
/// share state, settings or addresses.
type Replacements<'a> = &'a [(&'a str, &'a str)];

const INSTANCE: Replacements = &[
    ("Description=Longhaul data transfer node\n", "Description=Longhaul data transfer node %i\n"),
    (
        "After=network-online.target",
        "BindsTo=longhaul-netns@%i.service\nAfter=longhaul-netns@%i.service network-online.target",
    ),
    ("/etc/longhaul/longhaul.toml\n", "/etc/longhaul/%i.toml\nNetworkNamespacePath=/run/netns/%i\n"),
    ("LONGHAUL_STATE=%S/longhaul\n", "LONGHAUL_STATE=%S/longhaul-%i\n"),
    ("StateDirectory=longhaul\n", "StateDirectory=longhaul-%i\n"),
];
const HUB: Replacements = &[
    ("Description=Longhaul data transfer node\n", "Description=Longhaul hub\n"),
    ("man:longhaul-serve(1)", "man:longhaul-hub(1)"),
    ("longhaul serve --config /etc/longhaul/longhaul.toml\n", "longhaul hub serve --config /etc/longhaul/hub.toml\n"),
    ("User=longhaul\nGroup=longhaul\n", "User=longhaul-hub\nGroup=longhaul-hub\n"),
    ("LONGHAUL_STATE=%S/longhaul\n", "LONGHAUL_STATE=%S/longhaul-hub\n"),
    ("StateDirectory=longhaul\n", "StateDirectory=longhaul-hub\n"),
];
const WATCH: Replacements = &[
    ("Description=Longhaul data transfer node\n", "Description=Longhaul watch\n"),
    ("man:longhaul-serve(1)", "man:longhaul-watch(1)"),
    (
        "longhaul serve --config /etc/longhaul/longhaul.toml\n",
        "longhaul watch serve --config /etc/longhaul/watch.toml\n",
    ),
    ("User=longhaul\nGroup=longhaul\n", "User=longhaul-hub\nGroup=longhaul-hub\n"),
    ("LONGHAUL_STATE=%S/longhaul\n", "LONGHAUL_STATE=%S/longhaul-watch\n"),
    ("StateDirectory=longhaul\n", "StateDirectory=longhaul-watch\n"),
];
/// What only a node needs: tests of disks and of latency, and owners of files.
const NODE_ONLY: [&str; 3] =
    ["SystemCallFilter=mincore\n", "SystemCallFilter=adjtimex clock_adjtime\n", "SystemCallFilter=@chown\n"];

fn replace(text: &[u8], replacements: Replacements) -> Result<String> {
    let mut text = String::from_utf8(text.to_vec())?;
    for (from, to) in replacements {
        let (before, after) = text.split_once(from).with_context(|| format!("longhaul.service has no {from:?}"))?;
        text = format!("{before}{to}{after}");
    }
    Ok(text)
}

/// A unit without the remarks about a node, and without what only a node needs.
fn without_node(text: &[u8], replacements: Replacements) -> Result<Vec<u8>> {
    let mut text = replace(text, replacements)?;
    for line in NODE_ONLY {
        let (before, after) = text.split_once(line).with_context(|| format!("longhaul.service has no {line:?}"))?;
        text = format!("{before}{after}");
    }
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n"));
    let head = "# Restricted as longhaul.service, which explains each line.\n".to_owned();
    Ok(std::iter::once(head).chain(lines).collect::<String>().into_bytes())
}

/// The units of all services, by name, made from the unit of the host's node.
///
/// # Errors
/// The node's unit lacks a line that another one must replace.
pub fn of_services(node: &[u8]) -> Result<[(&'static str, Vec<u8>); 4]> {
    Ok([
        ("longhaul.service", node.to_vec()),
        ("longhaul@.service", replace(node, INSTANCE)?.into_bytes()),
        ("longhaul-hub.service", without_node(node, HUB)?),
        ("longhaul-watch.service", without_node(node, WATCH)?),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_one_host_share_nothing() {
        let node = crate::package::repository_file("packaging/longhaul.service").unwrap();
        let units = of_services(&node).unwrap().map(|(_, unit)| String::from_utf8(unit).unwrap());
        let values = |key: &str| {
            let prefix = format!("{key}=");
            let of_unit =
                |unit: &String| unit.lines().filter_map(|line| Some(line.strip_prefix(&prefix)?.to_owned())).collect();
            units.each_ref().map(of_unit).map(|values: Vec<String>| values.join(" "))
        };
        assert_eq!(values("StateDirectory"), ["longhaul", "longhaul-%i", "longhaul-hub", "longhaul-watch"]);
        assert_eq!(values("Environment"), values("StateDirectory").map(|name| format!("LONGHAUL_STATE=%S/{name}")));
        assert_eq!(values("User"), ["longhaul", "longhaul", "longhaul-hub", "longhaul-hub"]);
        assert_eq!(values("NetworkNamespacePath"), ["", "/run/netns/%i", "", ""]);
        let settings = values("ExecStart").map(|command| command.rsplit('/').next().unwrap().to_owned());
        assert_eq!(settings, ["longhaul.toml", "%i.toml", "hub.toml", "watch.toml"]);
        let calls = values("SystemCallFilter");
        assert_eq!(calls[2], "@system-service ~@privileged");
        assert_eq!(calls[2], calls[3]);
        assert!(of_services(b"[Unit]\n").is_err());
    }
}
