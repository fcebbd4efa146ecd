//! The resources of a node: memory, threads, processor time, and bytes on disk, as the kernel counts them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::node::Node;

/// A figure of `/proc/PID/status`.
fn status(node: &Node, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// Bytes of memory that are resident.
pub fn memory(node: &Node) -> u64 {
    status(node, "VmRSS") << 10
}

/// Threads.
pub fn threads(node: &Node) -> u64 {
    status(node, "Threads")
}

/// Processor time so far. The kernel counts it in hundredths of a second.
pub fn processor_time(node: &Node) -> Duration {
    let text = fs::read_to_string(format!("/proc/{}/stat", node.pid())).unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Threads of a node that run or wait for a processor.
pub fn busy_threads(node: &Node) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap().flatten();
    let state = |path: PathBuf| fs::read_to_string(path.join("stat")).ok()?.rsplit_once(')')?.1.trim().chars().next();
    tasks.filter(|task| matches!(state(task.path()), Some('R' | 'D'))).count()
}

/// Bytes of all files below a directory.
pub fn bytes_below(dir: &Path) -> u64 {
    let sizes = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// All entries below a directory, with the content of files and the targets of links, sorted.
pub fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(contents(&path));
            found.push((path, b"directory".to_vec()));
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
            found.push((path, target));
        } else {
            let bytes = fs::read(&path).unwrap_or_default();
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}

/// Whether bytes hold a text.
pub fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
