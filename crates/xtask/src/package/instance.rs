//! The unit of a second node on one host, `longhaul@NAME.service`: the unit of the first node, with a network
//! namespace, state and settings of its own.

use anyhow::{Context, Result};

/// The lines that differ in the unit of an instance. Each must be found: without one, two nodes would share state, settings or addresses.
const REPLACEMENTS: [(&str, &str); 5] = [
    ("Description=Longhaul data transfer node\n", "Description=Longhaul data transfer node %i\n"),
    (
        "After=network-online.target",
        "BindsTo=longhaul-netns@%i.service\nAfter=longhaul-netns@%i.service network-online.target",
    ),
    ("/etc/longhaul/longhaul.toml\n", "/etc/longhaul/%i.toml\nNetworkNamespacePath=/run/netns/%i\n"),
    ("LONGHAUL_STATE=%S/longhaul\n", "LONGHAUL_STATE=%S/longhaul-%i\n"),
    ("StateDirectory=longhaul\n", "StateDirectory=longhaul-%i\n"),
];

/// Makes the unit of instances from the unit of the host's node.
///
/// # Errors
/// The unit lacks a line that an instance must replace.
pub fn unit(text: &[u8]) -> Result<Vec<u8>> {
    let mut text = String::from_utf8(text.to_vec())?;
    for (from, to) in REPLACEMENTS {
        let (before, after) = text.split_once(from).with_context(|| format!("longhaul.service has no {from:?}"))?;
        text = format!("{before}{to}{after}");
    }
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_shares_nothing_with_the_node_of_the_host() {
        let text =
            String::from_utf8(unit(&crate::package::repository_file("packaging/longhaul.service").unwrap()).unwrap())
                .unwrap();
        let lines = |of: &str| text.lines().filter(|line| line.contains(of)).collect::<Vec<_>>();
        assert_eq!(lines("NetworkNamespacePath"), ["NetworkNamespacePath=/run/netns/%i"]);
        assert_eq!(lines("StateDirectory="), ["StateDirectory=longhaul-%i"]);
        assert!(lines("longhaul.toml").is_empty() && lines("BindsTo=").len() == 1, "{text}");
        assert!(unit(b"[Unit]\n").is_err());
    }
}
