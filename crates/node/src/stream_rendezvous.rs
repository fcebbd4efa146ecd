//! The stream rendezvous: data streams find the session that they want to join.

use model::Refusal;
use std::collections::{HashMap, HashSet};
use std::net::TcpStream;
use std::sync::Arc;

use engine::node::OpenRendezvous;
use engine::stream::{Joined, StreamPermit};
use model::fault::Fault;
use parking_lot::{Mutex, MutexGuard};
use wire::join::{Join, SessionId};
use wire::limits::STREAMS_MAX;

struct Entry {
    gate: OpenRendezvous,
    used: HashSet<u32>,
    /// Counts the session's open streams: each holds a clone.
    alive: Arc<()>,
}

/// The sessions that streams may join.
#[derive(Clone, Default)]
pub(crate) struct StreamRendezvous(Arc<Mutex<HashMap<SessionId, Entry>>>);

/// Why a stream may not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinRefused {
    /// No session of that name, or a wrong code: the two are not told apart.
    Unknown,
    /// The number has been used in this session.
    Again,
    /// The session has as many streams as it may have.
    Full,
    /// The stream is sealed and the session plain, or the other way round.
    Terms,
}

/// Removes a session when dropped.
struct Guard(StreamRendezvous, SessionId);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.entries().remove(&self.1);
    }
}

impl StreamRendezvous {
    fn entries(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.0.lock()
    }

    /// Adds a session.
    ///
    /// # Errors
    /// A session of this name is open already.
    pub fn open(&self, session: SessionId, gate: OpenRendezvous) -> Result<Box<dyn Send>, Refusal> {
        let mut entries = self.entries();
        if entries.contains_key(&session) {
            return Err(Refusal::new(Fault::Peer, "a session of this name is open already"));
        }
        entries.insert(session, Entry { gate, used: HashSet::new(), alive: Arc::default() });
        Ok(Box::new(Guard(self.clone(), session)))
    }

    /// Hands a stream over to its session, with the permit of its connection.
    ///
    /// # Errors
    /// The session does not accept the stream.
    pub fn join(&self, join: &Join, socket: TcpStream, place: StreamPermit) -> Result<(), JoinRefused> {
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
        let rendezvous = StreamRendezvous::default();
        let secret = Secret::new(&[7; 32]);
        let session = SessionId::from([1; 16]);
        let (sender, joined) = channel();
        let waker = sys::waker::Waker::new().unwrap();
        let gate = OpenRendezvous { secret: secret.clone(), sealed: true, joined: sender, waker };
        let _open = rendezvous.open(session, gate).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let join = |stream: u32| {
            let mut join = Join { session, stream, sealed: true, code: [0; 32] };
            secret.sign_join(&mut join);
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let near = listener.accept().unwrap().0;
            drop(socket);
            rendezvous.join(&join, near, Box::new(()))
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
