//! A lab that one process holds and another uses, over its socket.

use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use lab::control::{LabDirectory, Remote, Set, list};
use lab::fixture::{self, LabLock};
use lab::{Error, Lab, Scenario};

use super::probe::not_judged;

const TEXT: &str = "[site.a]\nuplink = {}\n[site.b]\n[path.a-b]\nrtt = \"2ms\"";

/// One site has a share of the processors, and so a control group.
const SHARED: &str = "[site.a]\n[site.b]\ncpu_share = 0.9\n[path.a-b]\nrtt = \"2ms\"";

fn with_lab(test: &str, act: impl FnOnce(&Path, Remote)) {
    with_lab_of(test, TEXT, |directory| directory, act);
}

/// Serves a lab on a thread while `act` uses it; `act` may end it.
fn with_lab_of(
    test: &str,
    text: &str,
    prepare: impl FnOnce(LabDirectory) -> LabDirectory,
    act: impl FnOnce(&Path, Remote),
) {
    if !fixture::has_prerequisites(test) {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let _lock = LabLock::take().unwrap();
    let scenario = Scenario::read(text).unwrap();
    let directory = prepare(LabDirectory::claim(state.path(), "mine").unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (ready, is_ready) = channel();
        let (stop, scenario) = (&stop, &scenario);
        let server =
            scope.spawn(move || directory.serve(scenario, || ready.send(()).unwrap(), || stop.load(Ordering::Relaxed)));
        // A failure in between must not wait for a lab that is never ended.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            is_ready.recv_timeout(Duration::from_secs(30)).unwrap();
            act(state.path(), Remote::at(state.path(), "mine").unwrap());
        }));
        stop.store(true, Ordering::Relaxed);
        match server.join().unwrap() {
            Err(error @ Error::Share { .. }) => not_judged(test, &error.to_string()),
            other => {
                other.unwrap();
                result.unwrap();
            }
        }
    });
    assert!(!state.path().join("lab/mine").exists(), "nothing is left");
    assert!(list(state.path()).is_empty());
}

fn set(target: &str, word: &str, value: &str) -> Set {
    let words = vec![(word.to_owned(), value.to_owned())];
    Set { target: target.to_owned(), direction: None, member: None, words, lasts_s: None }
}

#[test]
fn a_lab_is_used_from_another_process() {
    with_lab("a_lab_is_used_from_another_process", |state, lab| {
        assert_eq!(list(state).iter().map(Remote::name).collect::<Vec<_>>(), ["mine"]);
        let status = lab.status().unwrap();
        assert_eq!((status.lab.as_str(), status.pid, status.back_end.as_str()), ("mine", std::process::id(), "tun"));
        assert_eq!(status.sites.iter().map(|site| site.site.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(status.links.len(), 4, "two directions of a path, and two of an uplink");
        let output = lab.command("a", "uname").unwrap().arg("-n").output().unwrap();
        assert_eq!(output.stdout, b"a\n");
        let error = lab.command("c", "true").unwrap_err().to_string();
        assert!(error.contains("a, b"), "{error}");
        lab.set(set("a-b", "delay", "7ms")).unwrap();
        assert_eq!(lab.status().unwrap().links[0].delay_s, 0.007);
        let error = lab.set(set("a-b", "delay", "soon")).unwrap_err().to_string();
        assert!(error.contains("soon"), "{error}");
    });
}

#[test]
fn a_change_from_another_process_ends_by_itself() {
    with_lab("a_change_from_another_process_ends_by_itself", |_, lab| {
        let down = |lab: &Remote| lab.status().unwrap().links.iter().map(|link| link.is_down).collect::<Vec<_>>();
        let one = Set { direction: Some(1), lasts_s: Some(0.5), ..set("a-b", "down", "true") };
        // On a busy machine the change may be over before the test looks.
        let is_seen = (0..10).any(|_| {
            lab.set(one.clone()).unwrap();
            down(&lab) == [false, true, false, false]
        });
        assert!(is_seen, "{:?}", down(&lab));
        let deadline = Instant::now() + Duration::from_secs(10);
        while down(&lab).contains(&true) {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(50));
        }
        // Invalid times are refused, and the lab stays up.
        for lasts in [-1.0, f64::MAX] {
            let error = lab.set(Set { lasts_s: Some(lasts), ..set("a-b", "down", "true") }).unwrap_err().to_string();
            assert!(error.contains("last"), "{error}");
        }
        // A very long time is not an end at once.
        lab.set(Set { lasts_s: Some(1e18), ..set("a", "down", "true") }).unwrap();
        assert_eq!(down(&lab), [false, false, true, true]);
    });
}

#[test]
fn a_name_is_taken_once() {
    with_lab("a_name_is_taken_once", |state, _| {
        let error = LabDirectory::claim(state, "mine").unwrap_err();
        assert!(matches!(error, Error::Up { pid, .. } if pid == std::process::id()), "{error}");
        assert!(matches!(Remote::at(state, "yours"), Err(Error::NotUp { .. })));
        drop(LabDirectory::claim(state, "yours").unwrap());
        assert!(!state.join("lab/yours").exists());
    });
}

/// A process that ignores SIGTERM from its first output on.
fn stubborn(shell: &mut Command) -> Child {
    let words = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let mut child = shell.args(["-c", words]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    child
}

#[test]
fn down_ends_the_processes_at_the_sites() {
    let with_timeouts =
        |directory: LabDirectory| directory.with_timeouts(Duration::from_millis(300), Duration::from_secs(1));
    with_lab_of("down_ends_the_processes_at_the_sites", SHARED, with_timeouts, |_, lab| {
        let mut gentle = lab.command("a", "sleep").unwrap().arg("1000").spawn().unwrap();
        let mut stubborn = stubborn(&mut lab.command("b", "sh").unwrap());
        let group = lab.status().unwrap().sites[1].group.clone().map(PathBuf::from).unwrap();
        assert!(group.exists());
        let started = Instant::now();
        // Ended children stay until they are waited for, and no lab waits for them.
        let waiter = std::thread::spawn(move || gentle.wait().unwrap());
        let (status, ended) = lab.down().unwrap();
        assert_eq!(status.unwrap().lab, "mine");
        assert!(ended >= 2, "{ended}, with what the shell has started");
        assert!(!waiter.join().unwrap().success());
        assert!(!stubborn.wait().unwrap().success());
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        assert!(!group.exists(), "{} is left", group.display());
        assert!(matches!(lab.status(), Err(Error::Ended { .. })));
    });
}

#[test]
fn silent_callers_delay_others_only_briefly() {
    let with_timeouts =
        |directory: LabDirectory| directory.with_timeouts(Duration::from_secs(2), Duration::from_millis(500));
    with_lab_of("silent_callers_delay_others_only_briefly", TEXT, with_timeouts, |state, lab| {
        let socket = state.join("lab/mine/control");
        let call = |sent: &str| {
            let mut caller = std::os::unix::net::UnixStream::connect(&socket).unwrap();
            caller.write_all(sent.as_bytes()).unwrap();
            caller
        };
        for sent in ["", "\n", "nonsense\n", "{\"set\":{}}\n"] {
            drop(call(sent));
        }
        // Callers that connect and send nothing delay the others by half a second each.
        let started = Instant::now();
        let silent = [call(""), call("{")];
        assert_eq!(lab.status().unwrap().lab, "mine");
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        drop(silent);
    });
}

#[test]
fn a_lab_goes_down_although_the_caller_does_not_wait() {
    with_lab("a_lab_goes_down_although_the_caller_does_not_wait", |state, lab| {
        let mut caller = std::os::unix::net::UnixStream::connect(state.join("lab/mine/control")).unwrap();
        caller.write_all(b"\"down\"\n").unwrap();
        drop(caller);
        let deadline = Instant::now() + Duration::from_secs(20);
        while lab.status().is_ok() {
            assert!(Instant::now() < deadline, "it stayed up");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn words_that_contradict_the_settings_are_refused() {
    with_lab("words_that_contradict_the_settings_are_refused", |_, lab| {
        let change = |word: &str, value: &str| lab.set(set("a-b", word, value));
        for (word, value, what) in [
            ("cross_traffic", "10Mbit/s", "cross_traffic without a rate"),
            ("queue", "1MB", "a queue without a rate"),
            ("jitter", "1h", "more than the delay"),
        ] {
            let error = change(word, value).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        change("rate", "100Mbit/s").unwrap();
        change("queue", "1MB").unwrap();
        change("rate", "none").unwrap();
    });
}

/// The leftovers of a killed lab: processes without any network, control groups, files. The next lab of the name removes them, and nothing
/// else.
#[test]
fn leftovers_of_a_killed_lab_are_removed() {
    let test = "leftovers_of_a_killed_lab_are_removed";
    if !fixture::has_prerequisites(test) {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let _lock = LabLock::take().unwrap();
    let dir = state.path().join("lab/mine");
    std::fs::create_dir_all(&dir).unwrap();
    let lab = match Lab::up("mine", &Scenario::read(SHARED).unwrap(), &dir) {
        Err(error @ Error::Share { .. }) => return not_judged(test, &error.to_string()),
        other => other.unwrap(),
    };
    let group = lab.status().unwrap().sites[1].group.clone().map(PathBuf::from).unwrap();
    let start_in = |dir: &Path| {
        let mut shell = lab.command("b", "sh").unwrap();
        stubborn(shell.env("LONGHAUL_LAB_DIR", dir))
    };
    let mut leftover = start_in(&dir);
    let mut other = start_in(&state.path().join("lab/other"));
    // The process of the other lab leaves this lab's group. Then the lab is forgotten: like a killed one, it ends and removes nothing.
    std::fs::write(group.parent().unwrap().join("cgroup.procs"), other.id().to_string()).unwrap();
    std::mem::forget(lab);
    assert!(group.exists() && leftover.try_wait().unwrap().is_none());
    let directory = LabDirectory::claim(state.path(), "mine").unwrap();
    let is_alive = other.try_wait().unwrap().is_none();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(is_alive, "another lab's is left alone");
    assert!(!group.exists(), "{} is left", group.display());
    assert!(!directory.dir().join("sites").exists());
    assert!(!leftover.wait().unwrap().success());
}

/// A killed lab may still accept a connection, which then ends before or after the request.
#[test]
fn a_lab_that_dies_during_a_request_has_ended() {
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().join("lab/mine");
    std::fs::create_dir_all(&dir).unwrap();
    for reads_request in [false, true] {
        let _ = std::fs::remove_file(dir.join("control"));
        let listener = std::os::unix::net::UnixListener::bind(dir.join("control")).unwrap();
        let dying = std::thread::spawn(move || {
            drop(listener.accept().unwrap());
            let (caller, _) = listener.accept().unwrap();
            if reads_request {
                std::io::BufReader::new(caller).read_line(&mut String::new()).unwrap();
            }
        });
        let lab = Remote::at(state.path(), "mine").unwrap();
        let error = lab.down().unwrap_err();
        assert!(matches!(error, Error::Ended { .. }), "{error}");
        dying.join().unwrap();
    }
}
