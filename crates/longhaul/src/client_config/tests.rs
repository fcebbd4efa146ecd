//! The configuration file: names, precedence, error messages.

use std::ffi::OsStr;

use model::units::BitRate;

use super::*;

fn config(text: &str) -> Result<ClientConfig, Failure> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    ClientConfig::read(&path)
}

const CERN: &str = "[node.cern]\naddress = \"dtn.cern.example:99\"\n";

#[test]
fn a_configured_name_stands_for_its_node() {
    let config = config(&format!("{CERN}[node.six]\naddress = \"[2001:db8::1]\"\n")).unwrap();
    let shown = |text: &str| config.locator(text.as_bytes()).map(|locator| locator.unwrap().to_string());
    assert_eq!(shown("cern:data/run 7/").unwrap(), "lh://dtn.cern.example:99/data/run%207/");
    assert_eq!(shown("cern:/data/a:b").unwrap(), "lh://dtn.cern.example:99/data/a:b");
    assert_eq!(shown("cern:").unwrap(), "lh://dtn.cern.example:99/");
    assert_eq!(shown("cern:zero:5").unwrap(), "lh://dtn.cern.example:99/zero:5");
    assert_eq!(shown("six:data").unwrap(), "lh://[2001:db8::1]/data");
    for other in ["other:data", "me@cern:data", "./cern:data", "cern", "dir/cern:data"] {
        assert_eq!(shown(other), None, "{other}");
    }
    assert!(config.locator(b"cern:data/../../etc").unwrap().is_err());
}

#[test]
fn settings_of_a_node_override_the_defaults() {
    let config = config(&format!(
        "[defaults]\nlimit = \"2Gbit/s\"\nplain = true\nchecksum = \"md5\"\n{CERN}plain = false\nlimit = \"none\"\n"
    ))
    .unwrap();
    let cern = Locator::parse(OsStr::new("lh://dtn.cern.example:99/data")).unwrap();
    let Locator::Node { at, .. } = cern else { unreachable!() };
    let named = config.copy_defaults(Some(&at));
    let others = config.copy_defaults(None);
    assert_eq!((named.limit, named.plain), (Some(BitRate(0)), false));
    assert_eq!((others.limit, others.plain), (Some(BitRate(2_000_000_000)), true));
    let algorithm_count = |defaults: &CopyDefaults| defaults.checksum.as_ref().map(|list| list.0.len());
    assert_eq!((algorithm_count(named), algorithm_count(others)), (Some(2), Some(2)));
}

#[test]
fn errors_name_the_line_or_the_section() {
    for (text, words) in [
        ("[defaults]\nlimits = 3\n", "line 2: unknown field `limits`"),
        ("[defaults]\nlimit = \"fast\"\n", "[defaults]: limit: "),
        ("[defaults]\nchecksum = \"sha0\"\n", "[defaults]: checksum: "),
        ("[node.cern]\nkey-file = \"k\"\n", "line 1: missing field `address`"),
        ("[node.cern]\naddress = \"a:b:c\"\n", "[node.cern]: address: "),
        ("[node.zero]\naddress = \"a\"\n", "[node.zero]: `zero:` has another meaning"),
        ("[node.\"a/b\"]\naddress = \"a\"\n", "a node's name has letters"),
    ] {
        let message = config(text).unwrap_err().message;
        assert!(message.contains(words) && message.contains("config.toml: "), "{text}: {message}");
    }
}

#[test]
fn key_files_are_relative_to_the_configuration() {
    let dir = Path::new("/home/u/.config/longhaul");
    assert_eq!(resolve_file(dir, Path::new("cern.key")), dir.join("cern.key"));
    assert_eq!(resolve_file(dir, Path::new("/k")), Path::new("/k"));
}
