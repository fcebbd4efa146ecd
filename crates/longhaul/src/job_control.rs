//! Control of running jobs: each copy and each node listens on a unix socket in the state directory of its user, to which
//! `longhaul job` connects. Copies that have ended are remembered for a while in a directory beside the sockets.
//!
//! A request is one line of JSON; the reply is lines of JSON. Only the user can enter the directory of the sockets.

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

/// A process's jobs, as the control socket lists and changes them.
pub trait JobSource: Send + Sync {
    /// All jobs of the process.
    fn list(&self) -> Vec<v1::Transfer>;
    /// Changes a job, by its full id.
    ///
    /// # Errors
    /// The job is unknown, or cannot be changed; the text says why.
    fn change(&self, id: Uuid, change: &v1::Change) -> Result<(), String>;
}

/// A request: a change of the job `id`, or without an id the list of all jobs.
#[derive(Serialize, Deserialize)]
struct JobRequest {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Uuid>,
    #[serde(default)]
    change: v1::Change,
}

/// The reply to a change.
#[derive(Serialize, Deserialize)]
struct ChangeReply {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// How long the other end of a control socket may take to read or write.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

fn dir(state: &Path) -> PathBuf {
    state.join("run")
}

/// The control socket of this process. Its file is removed on drop.
pub struct ControlSocket {
    path: PathBuf,
    /// Locked from the start of a change until its reply has been sent.
    replying: Arc<Mutex<()>>,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // A change may have made the process end before its reply was sent. Wait for the reply.
        drop(self.replying.lock());
    }
}

/// Opens the control socket of this process, and serves it until the result is dropped. A job also runs without one.
///
/// # Errors
/// The directory or the socket cannot be made, or no thread can be started.
pub fn listen(state: &Path, jobs: Arc<dyn JobSource>) -> io::Result<ControlSocket> {
    let dir = dir(state);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    let path = dir.join(format!("{}.sock", std::process::id()));
    // The socket gets its final name only when it listens: a client that is refused takes the file for a leftover of a
    // killed process, and removes it.
    let temporary = path.with_extension("new");
    let _ = std::fs::remove_file(&temporary);
    let listener = UnixListener::bind(&temporary)?;
    std::fs::rename(&temporary, &path)?;
    let replying = Arc::new(Mutex::new(()));
    let reply_lock = Arc::clone(&replying);
    std::thread::Builder::new().name("job-control".into()).spawn(move || {
        for socket in listener.incoming().flatten() {
            // One connection at a time: each is one request and its reply.
            let _ = answer(&socket, &*jobs, &reply_lock);
        }
    })?;
    Ok(ControlSocket { path, replying })
}

fn line_of(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map(|text| text + "\n").map_err(io::Error::other)
}

fn answer(socket: &UnixStream, jobs: &dyn JobSource, replying: &Mutex<()>) -> io::Result<()> {
    socket.set_read_timeout(Some(IO_TIMEOUT))?;
    socket.set_write_timeout(Some(IO_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line)?;
    let request: JobRequest = serde_json::from_str(&line).map_err(io::Error::other)?;
    let mut socket = socket;
    let Some(id) = request.id else {
        let all: String = jobs.list().iter().map(line_of).collect::<io::Result<_>>()?;
        return socket.write_all(all.as_bytes());
    };
    let _replying = replying.lock();
    let reply = ChangeReply { v: 1, error: jobs.change(id, &request.change).err() };
    socket.write_all(line_of(&reply)?.as_bytes())
}

fn send(path: &Path, request: &JobRequest) -> io::Result<Vec<String>> {
    let socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(IO_TIMEOUT))?;
    (&socket).write_all(line_of(request)?.as_bytes())?;
    BufReader::new(&socket).lines().collect()
}

/// The sockets of running processes. Sockets that killed processes left are removed.
fn sockets(state: &Path) -> Vec<PathBuf> {
    let dir = dir(state);
    // Stale sockets are removed, so a link that another user may have put there must not be followed.
    let is_dir = std::fs::symlink_metadata(&dir).is_ok_and(|metadata| metadata.is_dir());
    let Some(entries) = std::fs::read_dir(dir).ok().filter(|_| is_dir) else { return Vec::new() };
    let paths =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "sock"));
    let is_alive = |path: &PathBuf| match UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                let _ = std::fs::remove_file(path);
            }
            false
        }
    };
    paths.filter(is_alive).collect()
}

pub use ended::remember;

/// The jobs of this user on this host: those that run, and copies that ended not long ago.
pub fn list(state: &Path) -> Vec<v1::Transfer> {
    let all = JobRequest { v: 1, id: None, change: v1::Change::default() };
    let lines = sockets(state).into_iter().filter_map(|path| send(&path, &all).ok()).flatten();
    let mut jobs: Vec<v1::Transfer> = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    let ended: Vec<v1::Transfer> =
        ended::list(state).into_iter().filter(|ended| jobs.iter().all(|job| job.id != ended.id)).collect();
    jobs.extend(ended);
    // Running jobs first: most users look for those.
    let order = |job: &v1::Transfer| (job.state.is_last(), job.id, job.role.clone());
    jobs.sort_by_cached_key(order);
    jobs
}

/// Changes a job, by its full id, in each process on this host that has a part of it.
///
/// # Errors
/// No process has the job, every process refused the change, or a socket broke; the text says why.
pub fn change(state: &Path, id: Uuid, change: &v1::Change) -> Result<(), String> {
    let request = JobRequest { v: 1, id: Some(id), change: *change };
    let mut reason = format!("no job {id} runs here any more");
    let mut is_changed = false;
    for path in sockets(state) {
        let lines = send(&path, &request).map_err(|e| format!("{}: {e}", path.display()))?;
        match lines.first().and_then(|line| serde_json::from_str::<ChangeReply>(line).ok()) {
            Some(ChangeReply { error: None, .. }) => is_changed = true,
            Some(ChangeReply { error: Some(error), .. }) => reason = error,
            None => {}
        }
    }
    if is_changed { Ok(()) } else { Err(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    const ONE: Uuid = Uuid::from_u128(1);

    struct OneJob(Mutex<Option<v1::Change>>);

    impl JobSource for OneJob {
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
    fn jobs_are_listed_and_changed_over_the_socket() {
        let state = tempfile::tempdir().unwrap();
        assert!(list(state.path()).is_empty());
        let one = Arc::new(OneJob(Mutex::new(None)));
        let control_socket = listen(state.path(), one.clone()).unwrap();
        assert_eq!(list(state.path()).iter().map(|j| j.id).collect::<Vec<_>>(), [ONE]);
        let pause = v1::Change { paused: Some(true), ..v1::Change::default() };
        change(state.path(), ONE, &pause).unwrap();
        assert_eq!(one.0.lock().take(), Some(pause));
        assert_eq!(change(state.path(), Uuid::from_u128(2), &pause), Err("not mine".into()));
        drop(control_socket);
        assert!(list(state.path()).is_empty());
    }

    #[test]
    fn a_list_during_startup_removes_no_socket() {
        let state = tempfile::tempdir().unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    list(state.path());
                }
            });
            let lost = (0..500).filter(|_| {
                let control_socket = listen(state.path(), Arc::new(OneJob(Mutex::new(None)))).unwrap();
                !control_socket.path.exists()
            });
            let lost = lost.count();
            over.store(true, Ordering::Relaxed);
            assert_eq!(lost, 0);
        });
    }

    /// A job that takes 100 ms for a change, and reports when the change begins.
    struct SlowJob(Mutex<mpsc::Sender<()>>);

    impl JobSource for SlowJob {
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
    fn a_change_that_ends_the_process_gets_its_reply() {
        let state = tempfile::tempdir().unwrap();
        let (begin_sender, begin_receiver) = mpsc::channel();
        let control_socket = listen(state.path(), Arc::new(SlowJob(Mutex::new(begin_sender)))).unwrap();
        let mut socket = UnixStream::connect(&control_socket.path).unwrap();
        let cancel = v1::Change { cancel: true, ..v1::Change::default() };
        let request = JobRequest { v: 1, id: Some(ONE), change: cancel };
        socket.write_all(line_of(&request).unwrap().as_bytes()).unwrap();
        begin_receiver.recv().unwrap();
        drop(control_socket);
        // Here the process would end: the reply must have been sent.
        socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 64];
        let n = socket.read(&mut bytes).unwrap();
        let reply: ChangeReply = serde_json::from_slice(&bytes[..n]).unwrap();
        assert_eq!(reply.error, None);
    }
}
