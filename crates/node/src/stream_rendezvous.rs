//! The stream rendezvous: hands data streams over to the sessions that they join.

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
    rendezvous: OpenRendezvous,
    /// The numbers of streams that have joined.
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
    /// No session of that name, or a wrong code: a client cannot tell which.
    Unknown,
    /// The number has been used in this session.
    NumberUsed,
    /// The session has as many streams as it may have.
    Full,
    /// One of the stream and its session is encrypted, and the other is not.
    Encryption,
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
    pub fn open(&self, session: SessionId, rendezvous: OpenRendezvous) -> Result<Box<dyn Send>, Refusal> {
        let mut entries = self.entries();
        if entries.contains_key(&session) {
            return Err(Refusal::new(Fault::Peer, "a session of this name is open already"));
        }
        entries.insert(session, Entry { rendezvous, used: HashSet::new(), alive: Arc::default() });
        Ok(Box::new(Guard(self.clone(), session)))
    }

    /// Hands a stream over to its session, with the permit of its connection.
    ///
    /// # Errors
    /// The session does not accept the stream.
    pub fn join(&self, join: &Join, socket: TcpStream, permit: StreamPermit) -> Result<(), JoinRefused> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&join.session).ok_or(JoinRefused::Unknown)?;
        if !entry.rendezvous.secret.verify_join(join) {
            return Err(JoinRefused::Unknown);
        }
        if join.sealed != entry.rendezvous.sealed {
            return Err(JoinRefused::Encryption);
        }
        if Arc::strong_count(&entry.alive) > STREAMS_MAX as usize {
            return Err(JoinRefused::Full);
        }
        if !entry.used.insert(join.stream) {
            return Err(JoinRefused::NumberUsed);
        }
        let permits = Box::new((permit, Arc::clone(&entry.alive)));
        let joined = Joined { socket, id: join.stream, permit: permits };
        entry.rendezvous.joined.send(joined).map_err(|_| JoinRefused::Unknown)?;
        entry.rendezvous.waker.wake();
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
    fn the_streams_of_a_session_are_bounded() {
        let rendezvous = StreamRendezvous::default();
        let secret = Secret::new(&[7; 32]);
        let session = SessionId::from([1; 16]);
        let (sender, joined) = channel();
        let waker = sys::waker::Waker::new().unwrap();
        let open = OpenRendezvous { secret: secret.clone(), sealed: true, joined: sender, waker };
        let _guard = rendezvous.open(session, open).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let join = |stream: u32| {
            let mut join = Join { session, stream, sealed: true, code: [0; 32] };
            secret.sign_join(&mut join);
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let near = listener.accept().unwrap().0;
            drop(socket);
            rendezvous.join(&join, near, Box::new(()))
        };
        // The other end closes each stream at once; it counts as long as its session holds it.
        let mut held = Vec::new();
        for stream in 0..STREAMS_MAX {
            join(stream).unwrap();
            held.push(joined.recv().unwrap().permit);
        }
        assert_eq!(join(STREAMS_MAX), Err(JoinRefused::Full));
        held.pop();
        assert_eq!(join(0), Err(JoinRefused::NumberUsed), "a number is used once");
        assert_eq!(join(STREAMS_MAX), Ok(()));
    }
}
