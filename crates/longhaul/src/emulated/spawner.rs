//! Starts processes from a thread that lives as long as this program. `setpriv --pdeathsig` ends a process when the thread that started it ends, not
//! when the program does (prctl(2), `PR_SET_PDEATHSIG`).

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A command, and where its child goes.
type SpawnRequest = (Command, SyncSender<io::Result<Child>>);

static REQUESTS: OnceLock<Mutex<Sender<SpawnRequest>>> = OnceLock::new();

/// Starts a process.
///
/// # Errors
/// It cannot be started.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let (answer, answered) = sync_channel(1);
    let requests = REQUESTS.get_or_init(|| Mutex::new(start()));
    let sent = requests.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer));
    sent.map_err(|_| io::Error::other("the thread that starts processes has ended"))?;
    answered.recv().map_err(io::Error::other)?
}

/// Starts the thread.
fn start() -> Sender<SpawnRequest> {
    let (requests, received) = channel::<SpawnRequest>();
    std::thread::spawn(move || {
        for (mut command, answer) in received {
            let _ = answer.send(command.spawn());
        }
    });
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_outlives_the_thread_that_asked_for_it() {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "sleep", "30"]);
        let asked = std::thread::spawn(move || spawn(command));
        // util-linux may be missing; then there is nothing to end with its parent.
        let Ok(mut child) = asked.join().unwrap() else { return };
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none(), "it was killed when the thread ended");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
