//! Source and target of a file as locators of the node that carries it.

use model::v1::hub::EndpointKind;

use crate::database::claims::ClaimedFile;
use crate::topology::Topology;

/// Source and target of a file as locators for the node that carries it: one of them is a local path. If both are at this node, the target
/// is written as a URL, like a place at another node.
pub(super) fn ends(topology: &Topology, carrier: &str, file: &ClaimedFile) -> (String, String) {
    let (source, target) = (native(topology, &file.source), native(topology, &file.target));
    match (local_path(topology, carrier, &source), local_path(topology, carrier, &target)) {
        (Some(source), _) => (source, target),
        (None, local) => (source, local.unwrap_or(target)),
    }
}

/// The native URL (`lh://`) of a file that a client names by another URL of a node: catalogues know storages as `davs://`, and nodes use
/// their own protocol among themselves.
fn native(topology: &Topology, url: &str) -> String {
    let native = || {
        let name = topology.endpoint(url)?;
        let endpoint = topology.described_endpoint(&name).filter(|it| it.kind == EndpointKind::Node)?;
        let native_url = endpoint.urls.iter().find_map(|known| known.strip_prefix("lh://"))?;
        let (_, rest) = url.split_once("://").filter(|(scheme, _)| !scheme.eq_ignore_ascii_case("lh"))?;
        Some(format!("lh://{}{}", native_url.split('/').next()?, &rest[rest.find('/')?..]))
    };
    native().unwrap_or_else(|| url.to_owned())
}

/// The path `/EXPORT/PATH` of a URL on the node `carrier`; `None` if the URL is on another server.
fn local_path(topology: &Topology, carrier: &str, url: &str) -> Option<String> {
    let rest = url.strip_prefix("lh://")?;
    if topology.endpoint(url).as_deref() != Some(carrier) {
        return None;
    }
    Some(rest[rest.find('/')?..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_url_of_a_node_becomes_its_native_url() {
        let toml = "[endpoint.a]\nurls = [\"lh://a:99/\", \"davs://a/\"]\n[endpoint.dav]\nkind = \"webdav\"\nurls = [\"davs://d/\"]";
        let topology = Topology::new(toml::from_str(toml).unwrap()).unwrap();
        assert_eq!(native(&topology, "davs://a/data/f"), "lh://a:99/data/f");
        assert_eq!(native(&topology, "https://a:443/data/f"), "lh://a:99/data/f");
        for same in ["lh://a:99/data/f", "davs://d/data/f", "davs://unknown/f", "s3://b/f"] {
            assert_eq!(native(&topology, same), same);
        }
    }
}
