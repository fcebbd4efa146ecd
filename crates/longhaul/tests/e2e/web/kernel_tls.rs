//! Long answers over TLS: a kernel that can (kTLS) seals them, and the client gets the same bytes either way.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use super::raw::open;
use crate::wait::skipped;

/// A little more than the shortest answer that the kernel seals.
const LENGTH: u64 = (1 << 30) + 12_345;

/// The connections whose sending half the kernel has taken over since it started; none where it has no TLS.
fn taken_over() -> Option<u64> {
    let counters = fs::read_to_string("/proc/net/tls_stat").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("TlsTxSw")?.trim().parse().ok())
}

#[test]
fn a_long_answer_over_tls_is_the_file_whoever_seals_it() {
    const NAME: &str = "web::kernel_tls::a_long_answer_over_tls_is_the_file_whoever_seals_it";
    if Command::new("curl").arg("--version").output().is_err() {
        return skipped(NAME, "curl is not installed");
    }
    let node = open();
    // A hole with a few bytes in it takes no space.
    let file = File::create(node.data("long")).unwrap();
    file.set_len(LENGTH).unwrap();
    for at in [0, 700 << 20, LENGTH - 9] {
        file.write_all_at(b"not zeros", at).unwrap();
    }
    let file = File::open(node.data("long")).unwrap();
    let before = taken_over();
    let url = format!("https://127.0.0.1:{}/data/long", node.port);
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--insecure", "--http1.1", &url]).stdout(Stdio::piped());
    let mut curl = command.spawn().unwrap();
    let mut body = curl.stdout.take().unwrap();
    let (mut got, mut expected, mut at) = (vec![0; 1 << 20], vec![0; 1 << 20], 0);
    loop {
        let count = body.read(&mut got).unwrap();
        if count == 0 {
            break;
        }
        file.read_exact_at(&mut expected[..count], at).unwrap();
        assert!(got[..count] == expected[..count], "between {at} and {}", at + count as u64);
        at += count as u64;
    }
    // curl fails where a connection ends without `close_notify`, or before the length of the body.
    assert!(curl.wait().unwrap().success());
    assert_eq!(at, LENGTH);

    // What the kernel seals ends its connection; what the process seals does not.
    let after = taken_over();
    assert_eq!(after.is_some(), before.is_some());
    assert!(after.zip(before).is_none_or(|(after, before)| after > before), "the kernel has TLS and did not seal");
    let mut twice = Command::new("curl");
    twice.args(["--silent", "--show-error", "--insecure", "--http1.1", "--write-out", "%{num_connects} "]);
    let output = twice.args([&url, &url, "--output", "/dev/null", "--output", "/dev/null"]).output().unwrap();
    let connects = if after.is_some() { "1 1 " } else { "1 0 " };
    assert_eq!(String::from_utf8(output.stdout).unwrap(), connects);
}
