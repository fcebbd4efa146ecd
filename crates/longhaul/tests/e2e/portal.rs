//! The portal in a browser: Chromium, driven by Playwright, against a hub and two nodes.

use std::path::Path;
use std::process::Command;

use crate::hub::Hub;
use crate::node::Setup;
use crate::tree::pattern;
use crate::wait::skipped;

/// What the page's own tests need.
const BROWSER: &str = "/usr/bin/chromium";

#[test]
fn a_person_moves_data_by_the_portal_and_an_operator_drains_an_endpoint() {
    const TEST: &str = "portal::a_person_moves_data_by_the_portal_and_an_operator_drains_an_endpoint";
    let portal = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hub/portal");
    if !Path::new(BROWSER).exists() || !portal.join("node_modules/playwright-core").exists() {
        return skipped(TEST, "no Chromium (package chromium), or the portal was not built (make portal)");
    }
    let node = || Setup::new().data_export("rw").signs_links().start();
    let (one, two) = (node(), node());
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    for (name, node) in [("one", &one), ("two", &two)] {
        let key = admin.write(&format!("{name}.key"), &node.grant(&["--export", "data", "--write"]));
        let (url, storage) = (node.at(""), node.at("data/catalogue"));
        let words = ["hub", "endpoint", "add", name, "--url", &url, "--endpoint-key-file", &key, "--storage", &storage];
        admin.run(&words).expect(0);
    }
    std::fs::create_dir_all(one.data("catalogue/s")).unwrap();
    std::fs::write(one.data("catalogue/s/f0"), pattern(100_000)).unwrap();
    std::fs::create_dir_all(one.data("run")).unwrap();
    for file in 0..5 {
        std::fs::write(one.data(&format!("run/f{file}")), pattern(100_000)).unwrap();
    }
    std::fs::create_dir_all(one.data("many")).unwrap();
    (0..5_000).for_each(|file| std::fs::write(one.data(&format!("many/n{file:04}")), b"").unwrap());
    // A name that would be markup, and one whose direction turns.
    std::fs::write(one.data("run/<img src=x onerror=window.broken=1>"), b"markup").unwrap();
    std::fs::write(one.data("run/invoice\u{202e}fdp.exe"), b"turned").unwrap();
    let output = Command::new("node")
        .arg("tests/portal.mjs")
        .current_dir(&portal)
        .env("HUB", &hub.url)
        .env("KEY", hub.grant(&["--role", "operator", "--name", "ann", "--community", ""]).trim())
        .env("SOURCE", one.at("data/run"))
        .env("TARGET", two.at("data/run"))
        .env("CHROMIUM", BROWSER)
        .output()
        .unwrap();
    let (told, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{complained}");
    assert_eq!(std::fs::read(two.data("run/f4")).unwrap(), pattern(100_000));
    assert_eq!(std::fs::read(two.data("run/invoice\u{202e}fdp.exe")).unwrap(), b"turned");
    assert_eq!(std::fs::read(two.data("f3")).unwrap(), pattern(100_000));
    assert!(!two.data("run-stolen").exists(), "a page of another site moved something");
}
