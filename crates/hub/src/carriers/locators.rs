//! Source and target of a file as locators of the node that carries it.

use model::v1::hub::EndpointKind;

use crate::database::claims::ClaimedFile;
use crate::topology::Topology;

/// Source and target of a file as locators of the node that carries it: one of them is local to it. Where both are, the target is
/// written like a place on another node.
pub(super) fn ends(topology: &Topology, carrier: &str, file: &ClaimedFile) -> (String, String) {
    let (source, target) = (native(topology, &file.source), native(topology, &file.target));
    match (place(topology, carrier, &source), place(topology, carrier, &target)) {
        (Some(source), _) => (source, target),
        (None, place) => (source, place.unwrap_or(target)),
    }
}

/// The native URL (`lh://`) of a file that a client names by another URL of a node: catalogues know storages as `davs://`, and nodes use
/// their own protocol among themselves.
fn native(topology: &Topology, url: &str) -> String {
    let native = || {
        let name = topology.endpoint(url)?;
        let endpoint = topology.described_endpoint(&name).filter(|it| it.kind == EndpointKind::Node)?;
        let own = endpoint.urls.iter().find_map(|own| own.strip_prefix("lh://"))?;
        let (_, rest) = url.split_once("://").filter(|(scheme, _)| !scheme.eq_ignore_ascii_case("lh"))?;
        Some(format!("lh://{}{}", own.split('/').next()?, &rest[rest.find('/')?..]))
    };
    native().unwrap_or_else(|| url.to_owned())
}

/// The path `/EXPORT/PATH` of a URL on the node that carries; none where the URL is on another server.
fn place(topology: &Topology, carrier: &str, url: &str) -> Option<String> {
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
    fn a_node_is_spoken_to_in_its_own_words_whatever_url_names_it() {
        let toml = "[endpoint.a]\nurls = [\"lh://a:99/\", \"davs://a/\"]\n[endpoint.dav]\nkind = \"webdav\"\nurls = [\"davs://d/\"]";
        let topology = Topology::new(toml::from_str(toml).unwrap()).unwrap();
        assert_eq!(native(&topology, "davs://a/data/f"), "lh://a:99/data/f");
        assert_eq!(native(&topology, "https://a:443/data/f"), "lh://a:99/data/f");
        for same in ["lh://a:99/data/f", "davs://d/data/f", "davs://unknown/f", "s3://b/f"] {
            assert_eq!(native(&topology, same), same);
        }
    }
}
