//! What the kernel counts of a running process (proc_pid_stat(5), proc_pid_io(5)).

use std::fs;

use rustix::process::Pid;

/// The processor time of a process and of the children that it has waited for, user and system, seconds; 0 where it is not known.
/// It can be read until the process has been waited for.
///
/// The time of all threads is counted in ticks of 10 ms, which is nothing for a client that copies a small file. The time of the first
/// thread is counted in nanoseconds. The greater of the two is right for both kinds: short processes have one thread.
pub(super) fn cpu_s(process: Pid) -> f64 {
    let text = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    let all_threads = ticks(&text("stat")) as f64 / rustix::param::clock_ticks_per_second().max(1) as f64;
    let first_thread = nanoseconds(&text("schedstat")) as f64 / 1e9;
    all_threads.max(first_thread)
}

/// The first field of a thread's `schedstat` (Documentation/scheduler/sched-stats.rst): its processor time, nanoseconds.
fn nanoseconds(schedstat: &str) -> u64 {
    schedstat.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Clock ticks of processor time. The second field is a name, which may hold any character.
fn ticks(stat: &str) -> u64 {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    (14..=17).map(field).sum()
}

/// How deep the children of a process are followed: rsync has a child for the files that it receives.
const DEPTH_MAX: u32 = 3;

/// The processes that the threads of a process have started (proc_pid_task_children(5)).
fn children(process: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = |text: String| -> Vec<Pid> {
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw).collect()
    };
    texts.flat_map(pids).collect()
}

/// Bytes that a process has passed to `read` and `write` and to calls like them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IoBytes {
    /// Bytes read: files, pipes, and sockets that are read like files. The program's own libraries count as well, some 100 kB.
    pub read: u64,
    /// Bytes written: files, `/dev/null`, pipes, and sockets that are written like files.
    pub written: u64,
}

impl IoBytes {
    /// The bytes of a process so far; zeros where the kernel does not count them.
    pub fn of(process: Pid) -> IoBytes {
        IoBytes::parse(&fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default())
    }

    /// The bytes of a process and of the processes that it has started, so far. Those of children that have ended count once they were
    /// waited for: the kernel adds them to the parent's.
    pub fn of_tree(process: Pid) -> IoBytes {
        let mut total = IoBytes::default();
        let mut left = vec![(process, 0)];
        while let Some((one, depth)) = left.pop() {
            let own = IoBytes::of(one);
            total = IoBytes { read: total.read + own.read, written: total.written + own.written };
            if depth < DEPTH_MAX {
                left.extend(children(one).into_iter().map(|child| (child, depth + 1)));
            }
        }
        total
    }

    fn parse(text: &str) -> IoBytes {
        let value = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok()).unwrap_or(0)
        };
        IoBytes { read: value("rchar"), written: value("wchar") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_has_that_of_children() {
        assert_eq!(ticks("7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 120 30 5 6 20 0 9 0 1 2 3"), 161);
        assert_eq!(ticks("nonsense"), 0);
        assert_eq!((nanoseconds("1234567 89 3\n"), nanoseconds("")), (1_234_567, 0));
    }

    #[test]
    fn a_short_process_has_used_processor_time() {
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let id = Pid::from_child(&child);
        // It has ended, and is not waited for.
        while !fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") Z") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(cpu_s(id) > 0.0);
        child.wait().unwrap();
    }

    #[test]
    fn bytes_of_children_are_counted_while_they_run_and_after() {
        let script = "head -c 3000000 /dev/zero >/dev/null; (head -c 2000000 /dev/zero; sleep 60) | cat >/dev/null";
        let mut command = std::process::Command::new("/bin/sh");
        let mut shell =
            std::os::unix::process::CommandExt::process_group(&mut command, 0).args(["-c", script]).spawn().unwrap();
        let process = Pid::from_child(&shell);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        // Read and written by the first one, which has ended, and by both sides of the pipe.
        while IoBytes::of_tree(process).written < 7_000_000 {
            assert!(std::time::Instant::now() < deadline, "{:?}", IoBytes::of_tree(process));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(IoBytes::of(process).written < 7_000_000, "the shell alone has not written as much");
        rustix::process::kill_process_group(process, rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn bytes_are_read_from_the_text_of_the_kernel() {
        let text = "rchar: 6976\nwchar: 12\nsyscr: 10\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 5\n";
        assert_eq!(IoBytes::parse(text), IoBytes { read: 6976, written: 12 });
        assert_eq!(IoBytes::parse(""), IoBytes::default());
    }
}
