//! Many bytes over HTTP/2: clients that can are sent on to HTTP/1.1, which costs both ends less.

use std::fs;
use std::process::Command;

use super::raw::open;
use crate::client::Client;
use crate::tree::pattern;
use crate::wait::skipped;

#[test]
fn curl_goes_on_with_http1_when_many_files_have_come_over_http2() {
    const NAME: &str = "web::http2::curl_goes_on_with_http1_when_many_files_have_come_over_http2";
    if Command::new("curl").arg("--version").output().is_err() {
        return skipped(NAME, "curl is not installed");
    }
    let node = open();
    let bytes = pattern(1 << 20);
    fs::write(node.data("f"), &bytes).unwrap();
    let url = format!("https://127.0.0.1:{}/data/f", node.port);
    // 64 MiB are enough; one file more shows that the new connection is kept.
    let list = format!("url = \"{url}\"\noutput = \"/dev/null\"\n").repeat(66);
    let curl = Client::new();
    fs::write(curl.path("list"), list).unwrap();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--insecure", "--http2", "--config"]).arg(curl.path("list"));
    let output = command.args(["--write-out", "%{http_version} %{size_download} %{num_connects}\n"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let size = bytes.len();
    let wanted = [
        format!("2 {size} 1\n"),
        format!("2 {size} 0\n").repeat(63),
        format!("1.1 {size} 1\n"),
        format!("1.1 {size} 0\n"),
    ];
    assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted.concat());
}
