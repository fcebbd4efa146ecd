//! A lab that one process holds and another uses, over its socket.

use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use lab::control::{LabDirectory, Remote, Set, list};
use lab::rig::{self, LabLock};
use lab::{Error, Lab, Scenario};

use super::probe::not_judged;

const TEXT: &str = "[site.a]\nuplink = {}\n[site.b]\n[path.a-b]\nrtt = \"2ms\"";

/// One site has a share of the processors, and so a control group.
const SHARED: &str = "[site.a]\n[site.b]\ncpu_share = 0.9\n[path.a-b]\nrtt = \"2ms\"";

fn served(test: &str, act: impl FnOnce(&Path, Remote)) {
    served_by(test, TEXT, |home| home, act);
}

/// Serves a lab on a thread while `act` uses it; `act` may end it.
fn served_by(test: &str, text: &str, made: impl FnOnce(LabDirectory) -> LabDirectory, act: impl FnOnce(&Path, Remote)) {
    if !rig::able(test) {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let _turn = LabLock::take().unwrap();
    let scenario = Scenario::read(text).unwrap();
    let home = made(LabDirectory::claim(state.path(), "mine").unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (ready, is_ready) = channel();
        let (over, scenario) = (&over, &scenario);
        let server =
            scope.spawn(move || home.serve(scenario, || ready.send(()).unwrap(), || over.load(Ordering::Relaxed)));
        // A failure in between must not wait for a lab that is never ended.
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            is_ready.recv_timeout(Duration::from_secs(30)).unwrap();
            act(state.path(), Remote::at(state.path(), "mine").unwrap());
        }));
        over.store(true, Ordering::Relaxed);
        match server.join().unwrap() {
            Err(error @ Error::Share { .. }) => not_judged(test, &error.to_string()),
            other => {
                other.unwrap();
                acted.unwrap();
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
fn a_lab_is_used_from_elsewhere() {
    served("a_lab_is_used_from_elsewhere", |state, lab| {
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
fn a_change_from_elsewhere_ends_by_itself() {
    served("a_change_from_elsewhere_ends_by_itself", |_, lab| {
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
        // Invalid times are refused, and the lab goes on.
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
    served("a_name_is_taken_once", |state, _| {
        let error = LabDirectory::claim(state, "mine").unwrap_err();
        assert!(matches!(error, Error::Up { pid, .. } if pid == std::process::id()), "{error}");
        assert!(matches!(Remote::at(state, "yours"), Err(Error::NotUp { .. })));
        drop(LabDirectory::claim(state, "yours").unwrap());
        assert!(!state.join("lab/yours").exists());
    });
}

/// A process that ignores SIGTERM, once it is ready to.
fn stubborn(shell: &mut Command) -> Child {
    let words = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let mut child = shell.args(["-c", words]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    child
}

#[test]
fn down_ends_what_runs_at_the_sites() {
    let hurried = |home: LabDirectory| home.hurried(Duration::from_millis(300), Duration::from_secs(1));
    served_by("down_ends_what_runs_at_the_sites", SHARED, hurried, |_, lab| {
        let mut gentle = lab.command("a", "sleep").unwrap().arg("1000").spawn().unwrap();
        let mut stubborn = stubborn(&mut lab.command("b", "sh").unwrap());
        let group = lab.status().unwrap().sites[1].group.clone().map(PathBuf::from).unwrap();
        assert!(group.exists());
        let begun = Instant::now();
        // Ended children stay until they are waited for, and no lab waits for them.
        let waiter = std::thread::spawn(move || gentle.wait().unwrap());
        let (status, ended) = lab.down().unwrap();
        assert_eq!(status.unwrap().lab, "mine");
        assert!(ended >= 2, "{ended}, with what the shell has started");
        assert!(!waiter.join().unwrap().success());
        assert!(!stubborn.wait().unwrap().success());
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        assert!(!group.exists(), "{} is left", group.display());
        assert!(matches!(lab.status(), Err(Error::Ended { .. })));
    });
}

#[test]
fn silent_callers_do_no_harm() {
    let hurried = |home: LabDirectory| home.hurried(Duration::from_secs(2), Duration::from_millis(500));
    served_by("silent_callers_do_no_harm", TEXT, hurried, |state, lab| {
        let socket = state.join("lab/mine/control");
        let call = |said: &str| {
            let mut caller = std::os::unix::net::UnixStream::connect(&socket).unwrap();
            caller.write_all(said.as_bytes()).unwrap();
            caller
        };
        for said in ["", "\n", "nonsense\n", "{\"set\":{}}\n"] {
            drop(call(said));
        }
        // Callers that connect and send nothing hold the others up for half a second each.
        let begun = Instant::now();
        let silent = [call(""), call("{")];
        assert_eq!(lab.status().unwrap().lab, "mine");
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        drop(silent);
    });
}

#[test]
fn whoever_asks_it_to_go_down_need_not_wait() {
    served("whoever_asks_it_to_go_down_need_not_wait", |state, lab| {
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
fn words_that_contradict_what_is_in_force_are_refused() {
    served("words_that_contradict_what_is_in_force_are_refused", |_, lab| {
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
fn what_a_killed_lab_left_is_cleared_away() {
    let test = "what_a_killed_lab_left_is_cleared_away";
    if !rig::able(test) {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let _turn = LabLock::take().unwrap();
    let dir = state.path().join("lab/mine");
    std::fs::create_dir_all(&dir).unwrap();
    let lab = match Lab::up("mine", &Scenario::read(SHARED).unwrap(), &dir) {
        Err(error @ Error::Share { .. }) => return not_judged(test, &error.to_string()),
        other => other.unwrap(),
    };
    let group = lab.status().unwrap().sites[1].group.clone().map(PathBuf::from).unwrap();
    let marked = |dir: &Path| {
        let mut shell = lab.command("b", "sh").unwrap();
        stubborn(shell.env("LONGHAUL_LAB_DIR", dir))
    };
    let (mut stray, mut other) = (marked(&dir), marked(&state.path().join("lab/other")));
    // It ends nothing and removes nothing, as if it had been killed. The group has only a process of its own.
    std::fs::write(group.parent().unwrap().join("cgroup.procs"), other.id().to_string()).unwrap();
    std::mem::forget(lab);
    assert!(group.exists() && stray.try_wait().unwrap().is_none());
    let home = LabDirectory::claim(state.path(), "mine").unwrap();
    let is_alive = other.try_wait().unwrap().is_none();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(is_alive, "another lab's is left alone");
    assert!(!group.exists(), "{} is left", group.display());
    assert!(!home.dir().join("sites").exists());
    assert!(!stray.wait().unwrap().success());
}

/// A killed lab may still accept a connection, which then ends before or after the request.
#[test]
fn a_lab_that_dies_while_it_is_asked_has_ended() {
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().join("lab/mine");
    std::fs::create_dir_all(&dir).unwrap();
    for hears_it in [false, true] {
        let _ = std::fs::remove_file(dir.join("control"));
        let listener = std::os::unix::net::UnixListener::bind(dir.join("control")).unwrap();
        let dying = std::thread::spawn(move || {
            drop(listener.accept().unwrap());
            let (caller, _) = listener.accept().unwrap();
            if hears_it {
                std::io::BufReader::new(caller).read_line(&mut String::new()).unwrap();
            }
        });
        let lab = Remote::at(state.path(), "mine").unwrap();
        let error = lab.down().unwrap_err();
        assert!(matches!(error, Error::Ended { .. }), "{error}");
        dying.join().unwrap();
    }
}
