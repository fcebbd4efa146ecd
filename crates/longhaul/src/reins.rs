//! The reins of running jobs, over a unix socket in the state directory: how `longhaul job` reaches a copy or a node of
//! this user on this host. Copies that have ended are remembered beside them for a while.
//!
//! One line of JSON asks, lines of JSON answer. The directory is the user's alone, and so are the sockets.

mod ended;

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::id::Uuid;
use model::v1;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Whoever has jobs.
pub trait Stable: Send + Sync {
    /// All of them.
    fn list(&self) -> Vec<v1::Transfer>;
    /// Changes one, by its full id.
    fn change(&self, id: Uuid, change: &v1::Change) -> Result<(), String>;
}

/// What is asked: without a job, for the list.
#[derive(Serialize, Deserialize)]
struct Ask {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Uuid>,
    #[serde(default)]
    change: v1::Change,
}

/// The answer to a change.
#[derive(Serialize, Deserialize)]
struct Changed {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

const PATIENCE: Duration = Duration::from_secs(5);

fn dir(state: &Path) -> PathBuf {
    state.join("run")
}

/// The socket, removed with this.
pub struct Bound {
    path: PathBuf,
    /// Held while a change is made and told.
    telling: Arc<Mutex<()>>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // The process may end right after this, of the very change that somebody waits to hear of.
        drop(self.telling.lock());
    }
}

/// Listens for as long as the result lives. A job runs as well without.
pub fn listen(state: &Path, jobs: Arc<dyn Stable>) -> io::Result<Bound> {
    let dir = dir(state);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    let path = dir.join(format!("{}.sock", std::process::id()));
    // It gets its name when it listens: who is refused there takes it for what a killed process left, and removes it.
    let nameless = path.with_extension("new");
    let _ = std::fs::remove_file(&nameless);
    let listener = UnixListener::bind(&nameless)?;
    std::fs::rename(&nameless, &path)?;
    let telling = Arc::new(Mutex::new(()));
    let held = Arc::clone(&telling);
    std::thread::Builder::new().name("reins".into()).spawn(move || {
        for socket in listener.incoming().flatten() {
            // One at a time: each is a line and its answer.
            let _ = answer(&socket, &*jobs, &held);
        }
    })?;
    Ok(Bound { path, telling })
}

fn line_of(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map(|text| text + "\n").map_err(io::Error::other)
}

fn answer(socket: &UnixStream, jobs: &dyn Stable, telling: &Mutex<()>) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line)?;
    let ask: Ask = serde_json::from_str(&line).map_err(io::Error::other)?;
    let mut socket = socket;
    let Some(id) = ask.id else {
        let all: String = jobs.list().iter().map(line_of).collect::<io::Result<_>>()?;
        return socket.write_all(all.as_bytes());
    };
    let _telling = telling.lock();
    let changed = Changed { v: 1, error: jobs.change(id, &ask.change).err() };
    socket.write_all(line_of(&changed)?.as_bytes())
}

fn ask(path: &Path, ask: &Ask) -> io::Result<Vec<String>> {
    let socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    (&socket).write_all(line_of(ask)?.as_bytes())?;
    BufReader::new(&socket).lines().collect()
}

/// The sockets of those who run now. What a killed process left goes.
fn sockets(state: &Path) -> Vec<PathBuf> {
    let dir = dir(state);
    // What is stale is removed: not where a link leads to, that another user may have put there.
    let is_dir = std::fs::symlink_metadata(&dir).is_ok_and(|facts| facts.is_dir());
    let Some(entries) = std::fs::read_dir(dir).ok().filter(|_| is_dir) else { return Vec::new() };
    let paths =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "sock"));
    let alive = |path: &PathBuf| match UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                let _ = std::fs::remove_file(path);
            }
            false
        }
    };
    paths.filter(alive).collect()
}

pub use ended::remember;

/// The jobs of this user on this host: those that run, and copies that ended not long ago.
pub fn list(state: &Path) -> Vec<v1::Transfer> {
    let all = Ask { v: 1, id: None, change: v1::Change::default() };
    let lines = sockets(state).into_iter().filter_map(|path| ask(&path, &all).ok()).flatten();
    let mut jobs: Vec<v1::Transfer> = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    let past: Vec<v1::Transfer> =
        ended::list(state).into_iter().filter(|past| jobs.iter().all(|job| job.id != past.id)).collect();
    jobs.extend(past);
    // What runs is what most look for.
    let order = |job: &v1::Transfer| (job.state.is_last(), job.id, job.role.clone());
    jobs.sort_by_cached_key(order);
    jobs
}

/// Changes a job, by its full id, wherever on this host a part of it is.
pub fn change(state: &Path, id: Uuid, change: &v1::Change) -> Result<(), String> {
    let wanted = Ask { v: 1, id: Some(id), change: *change };
    let mut refused = format!("no job {id} runs here any more");
    let mut done = false;
    for path in sockets(state) {
        let lines = ask(&path, &wanted).map_err(|e| format!("{}: {e}", path.display()))?;
        match lines.first().and_then(|line| serde_json::from_str::<Changed>(line).ok()) {
            Some(Changed { error: None, .. }) => done = true,
            Some(Changed { error: Some(error), .. }) => refused = error,
            None => {}
        }
    }
    if done { Ok(()) } else { Err(refused) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    const ONE: Uuid = Uuid::from_u128(1);

    struct One(Mutex<Option<v1::Change>>);

    impl Stable for One {
        fn list(&self) -> Vec<v1::Transfer> {
            vec![v1::Transfer { id: ONE, ..v1::Transfer::default() }]
        }

        fn change(&self, id: Uuid, change: &v1::Change) -> Result<(), String> {
            if id != ONE {
                return Err("not mine".into());
            }
            *self.0.lock() = Some(*change);
            Ok(())
        }
    }

    #[test]
    fn asked_and_changed_over_the_socket() {
        let state = tempfile::tempdir().unwrap();
        assert!(list(state.path()).is_empty());
        let one = Arc::new(One(Mutex::new(None)));
        let bound = listen(state.path(), one.clone()).unwrap();
        assert_eq!(list(state.path()).iter().map(|j| j.id).collect::<Vec<_>>(), [ONE]);
        let pause = v1::Change { paused: Some(true), ..v1::Change::default() };
        change(state.path(), ONE, &pause).unwrap();
        assert_eq!(one.0.lock().take(), Some(pause));
        assert_eq!(change(state.path(), Uuid::from_u128(2), &pause), Err("not mine".into()));
        drop(bound);
        assert!(list(state.path()).is_empty());
    }

    #[test]
    fn who_looks_just_then_removes_nothing() {
        let state = tempfile::tempdir().unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    list(state.path());
                }
            });
            let lost = (0..500).filter(|_| {
                let bound = listen(state.path(), Arc::new(One(Mutex::new(None)))).unwrap();
                !bound.path.exists()
            });
            let lost = lost.count();
            over.store(true, Ordering::Relaxed);
            assert_eq!(lost, 0);
        });
    }

    /// A job that is some time at a change, and says when it begins.
    struct Slow(Mutex<mpsc::Sender<()>>);

    impl Stable for Slow {
        fn list(&self) -> Vec<v1::Transfer> {
            Vec::new()
        }

        fn change(&self, _: Uuid, _: &v1::Change) -> Result<(), String> {
            self.0.lock().send(()).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            Ok(())
        }
    }

    #[test]
    fn a_change_that_ends_the_process_is_still_told() {
        let state = tempfile::tempdir().unwrap();
        let (begins, begun) = mpsc::channel();
        let bound = listen(state.path(), Arc::new(Slow(Mutex::new(begins)))).unwrap();
        let mut socket = UnixStream::connect(&bound.path).unwrap();
        let cancel = v1::Change { cancel: true, ..v1::Change::default() };
        let wanted = Ask { v: 1, id: Some(ONE), change: cancel };
        socket.write_all(line_of(&wanted).unwrap().as_bytes()).unwrap();
        begun.recv().unwrap();
        drop(bound);
        // Here the process would end: the answer must have been given.
        socket.set_nonblocking(true).unwrap();
        let mut told = [0; 64];
        let n = socket.read(&mut told).unwrap();
        let told: Changed = serde_json::from_slice(&told[..n]).unwrap();
        assert_eq!(told.error, None);
    }
}
