//! The gates of the sessions that live here: how a data stream finds the session it wants to join.

use model::Refusal;
use std::collections::{HashMap, HashSet};
use std::net::TcpStream;
use std::sync::Arc;

use engine::node::Gate;
use engine::stream::{Joined, Place};
use model::fault::Fault;
use parking_lot::{Mutex, MutexGuard};
use wire::join::{Join, SessionId};
use wire::limits::STREAMS_MAX;

struct Entry {
    gate: Gate,
    used: HashSet<u32>,
    /// Its streams that live: each holds a clone.
    alive: Arc<()>,
}

/// All gates that are open.
#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<HashMap<SessionId, Entry>>>);

/// Why a stream may not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinRefused {
    /// No session of that name, or not its code: not told apart.
    Unknown,
    /// The number has been used in this session.
    Again,
    /// It has as many streams as a session may have.
    Full,
    /// Sealed where the session is plain, or the other way round.
    Terms,
}

/// Closes a session's gate when dropped.
struct Guard(Registry, SessionId);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.entries().remove(&self.1);
    }
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.0.lock()
    }

    /// Opens a gate.
    pub fn open(&self, session: SessionId, gate: Gate) -> Result<Box<dyn Send>, Refusal> {
        let mut entries = self.entries();
        if entries.contains_key(&session) {
            return Err(Refusal::new(Fault::Peer, "a session of this name is open already"));
        }
        entries.insert(session, Entry { gate, used: HashSet::new(), alive: Arc::default() });
        Ok(Box::new(Guard(self.clone(), session)))
    }

    /// Hands a stream over to its session, with the place that its connection holds.
    pub fn join(&self, join: &Join, socket: TcpStream, place: Place) -> Result<(), JoinRefused> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&join.session).ok_or(JoinRefused::Unknown)?;
        if !entry.gate.secret.verify_join(join) {
            return Err(JoinRefused::Unknown);
        }
        if join.sealed != entry.gate.sealed {
            return Err(JoinRefused::Terms);
        }
        if Arc::strong_count(&entry.alive) > STREAMS_MAX as usize {
            return Err(JoinRefused::Full);
        }
        if !entry.used.insert(join.stream) {
            return Err(JoinRefused::Again);
        }
        let place = Box::new((place, Arc::clone(&entry.alive)));
        let joined = Joined { socket, id: join.stream, place };
        entry.gate.joined.send(joined).map_err(|_| JoinRefused::Unknown)?;
        entry.gate.waker.wake();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::seal::Secret;
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    #[test]
    fn a_session_has_so_many_streams() {
        let (registry, secret, session) = (Registry::default(), Secret::new(&[7; 32]), SessionId::from([1; 16]));
        let (sender, joined) = channel();
        let waker = sys::waker::Waker::new().unwrap();
        let gate = Gate { secret: secret.clone(), sealed: true, joined: sender, waker };
        let _open = registry.open(session, gate).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let join = |stream: u32| {
            let mut join = Join { session, stream, sealed: true, code: [0; 32] };
            secret.sign_join(&mut join);
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let near = listener.accept().unwrap().0;
            drop(socket);
            registry.join(&join, near, Box::new(()))
        };
        // Closed at once, each still counts for as long as its session has it.
        let mut held = Vec::new();
        for stream in 0..STREAMS_MAX {
            join(stream).unwrap();
            held.push(joined.recv().unwrap().place);
        }
        assert_eq!(join(STREAMS_MAX), Err(JoinRefused::Full));
        held.pop();
        assert_eq!(join(0), Err(JoinRefused::Again), "a number is used once");
        assert_eq!(join(STREAMS_MAX), Ok(()));
    }
}
