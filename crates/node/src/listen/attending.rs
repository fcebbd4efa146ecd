//! From a connection that speaks to the thread that answers it, or to a place in line.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use engine::node::Host;
use model::fault::with_causes;

use super::{Inner, Resting};
use crate::crowd::neighbourhood;
use crate::http::h1;
use crate::meters::Why;
use crate::sniff::seems_http;

/// A connection's place among those attended to: given back when dropped, also when its thread panics, to whoever is next.
pub(super) struct Attended {
    inner: Arc<Inner>,
    from: IpAddr,
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.inner.hall.leave(self.from);
        Inner::call_in(&self.inner);
    }
}

impl Inner {
    /// Gives a connection that speaks a thread of its own, as soon as there is one to give. Never waits itself: the thread that
    /// calls it hears all connections.
    pub(super) fn attend(inner: &Arc<Inner>, guest: Resting) {
        let from = neighbourhood(guest.peer().ip());
        if let Some(guest) = inner.hall.enter(from, guest)
            && !Inner::begin(inner, from, guest)
        {
            Inner::call_in(inner);
        }
    }

    /// Attends to those in line, as far as there are places.
    fn call_in(inner: &Arc<Inner>) {
        while let Some((from, guest)) = inner.hall.next() {
            Inner::begin(inner, from, guest);
        }
    }

    /// Starts the thread of a guest who has a place; whether that went well.
    fn begin(inner: &Arc<Inner>, from: IpAddr, guest: Resting) -> bool {
        let own = Arc::clone(inner);
        let serve = move || {
            // Made here: where no thread starts, this would be dropped with the closure and call in the next one from there.
            let attended = Attended { inner: Arc::clone(&own), from };
            match guest {
                Resting::Fresh(fresh) => {
                    let peer = fresh.peer;
                    if let Err(error) = own.serve(fresh, attended) {
                        tracing::info!(target: "access", %peer, outcome = "failed", error = with_causes(&error));
                    }
                }
                Resting::Http(connection) => own.http(connection),
            }
        };
        let begun = std::thread::Builder::new().name("connection".into()).spawn(serve);
        if let Err(error) = &begun {
            inner.hall.leave(from);
            tracing::warn!(%error, "cannot start a thread for a connection");
        }
        begun.is_ok()
    }

    /// Ends connections that nobody could attend to in time, with a word where one can be said without waiting.
    pub(super) fn send_away_the_late(&self) {
        for guest in self.hall.late(Instant::now()) {
            let peer = guest.peer();
            self.host.meters.refused(Why::Busy);
            tracing::info!(target: "access", %peer, outcome = "refused", error = "no thread was free for it in time");
            match guest {
                Resting::Http(connection) => connection.send_away(),
                Resting::Fresh(fresh) if self.host.allows_plain() && seems_http(&fresh.socket) => {
                    if let Ok(conn) = web::Conn::new(fresh.socket, None) {
                        h1::Connection::new(conn, None, Some(fresh.seat)).send_away();
                    }
                }
                Resting::Fresh(_) => {}
            }
        }
    }
}
