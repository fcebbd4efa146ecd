//! A lab held by one side and used by another, over its socket.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use lab::control::{Home, Remote, Set, list};
use lab::rig::{self, Turn};
use lab::{Error, Scenario};

const TEXT: &str = "[site.a]\nuplink = {}\n[site.b]\n[path.a-b]\nrtt = \"2ms\"";

/// Serves a lab on a thread while `act` uses it; `act` may end it.
fn served(test: &str, act: impl FnOnce(&std::path::Path, Remote)) {
    if !rig::able(test) {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let _turn = Turn::take().unwrap();
    let scenario = Scenario::read(TEXT).unwrap();
    let home = Home::claim(state.path(), "mine").unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (ready, is_ready) = channel();
        let (over, scenario) = (&over, &scenario);
        let server =
            scope.spawn(move || home.serve(scenario, || ready.send(()).unwrap(), || over.load(Ordering::Relaxed)));
        // What fails in between must not wait for a lab that nobody ends.
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            is_ready.recv_timeout(Duration::from_secs(30)).unwrap();
            act(state.path(), Remote::at(state.path(), "mine").unwrap());
        }));
        over.store(true, Ordering::Relaxed);
        server.join().unwrap().unwrap();
        acted.unwrap();
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
        lab.set(one).unwrap();
        assert_eq!(down(&lab), [false, true, false, false]);
        let deadline = Instant::now() + Duration::from_secs(10);
        while down(&lab).contains(&true) {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(50));
        }
        // Times that are none are refused, and the lab goes on.
        for lasts in [-1.0, f64::MAX] {
            let error = lab.set(Set { lasts_s: Some(lasts), ..set("a-b", "down", "true") }).unwrap_err().to_string();
            assert!(error.contains("last"), "{error}");
        }
        // Longer than anybody waits is long, not an end at once.
        lab.set(Set { lasts_s: Some(1e18), ..set("a", "down", "true") }).unwrap();
        assert_eq!(down(&lab), [false, false, true, true]);
    });
}

#[test]
fn a_name_is_taken_once() {
    served("a_name_is_taken_once", |state, _| {
        let error = Home::claim(state, "mine").unwrap_err();
        assert!(matches!(error, Error::Up { pid, .. } if pid == std::process::id()), "{error}");
        assert!(matches!(Remote::at(state, "yours"), Err(Error::NotUp { .. })));
        drop(Home::claim(state, "yours").unwrap());
        assert!(!state.join("lab/yours").exists());
    });
}

#[test]
fn down_ends_what_runs_at_the_sites() {
    served("down_ends_what_runs_at_the_sites", |_, lab| {
        let sleeper = |site: &str, program: &str, words: &[&str]| {
            let mut command = lab.command(site, program).unwrap();
            command.args(words).stdout(Stdio::piped()).spawn().unwrap()
        };
        let mut gentle = sleeper("a", "sleep", &["1000"]);
        // This one does not want to go; it says when it is ready not to.
        let mut stubborn =
            sleeper("b", "sh", &["-c", "trap '' TERM; echo ready; while :; do read x; done < /dev/zero"]);
        let mut word = [0; 5];
        std::io::Read::read_exact(stubborn.stdout.as_mut().unwrap(), &mut word).unwrap();
        let begun = Instant::now();
        // Ended children stay until they are waited for, which no lab waits for.
        let waiter = std::thread::spawn(move || gentle.wait().unwrap());
        let (status, ended) = lab.down().unwrap();
        assert_eq!((status.unwrap().lab, ended), ("mine".to_owned(), 2));
        assert!(!waiter.join().unwrap().success());
        assert!(!stubborn.wait().unwrap().success());
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        assert!(matches!(lab.status(), Err(Error::Ended { .. })));
    });
}

#[test]
fn silent_callers_do_no_harm() {
    served("silent_callers_do_no_harm", |state, lab| {
        let socket = state.join("lab/mine/control");
        for said in ["", "\n", "nonsense\n", "{\"set\":{}}\n"] {
            let mut caller = std::os::unix::net::UnixStream::connect(&socket).unwrap();
            std::io::Write::write_all(&mut caller, said.as_bytes()).unwrap();
        }
        assert_eq!(lab.status().unwrap().lab, "mine");
    });
}
