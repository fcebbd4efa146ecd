//! What is shipped beside packages: the chart, the compose file and the role.

use std::path::Path;
use std::process::Command;

use crate::wait::skipped;

#[test]
fn the_chart_the_compose_file_and_the_role_are_sound() {
    let test = "deployment::the_chart_the_compose_file_and_the_role_are_sound";
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !ours.join("target/tools/packaging").exists() {
        return skipped(test, "their checkers are not installed (scripts/setup-packaging.sh)");
    }
    let output = Command::new("sh").arg(ours.join("scripts/check-packaging.sh")).arg("--sources").output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{out}{}", String::from_utf8_lossy(&output.stderr));
    for line in out.lines().filter(|line| line.starts_with("skipped: ")) {
        skipped(test, line);
    }
}
