//! Routes over real sockets: through the lab's emulated paths, and through kernels that forward.
//!
//! Needs root; where there can be no namespaces, each test says so loudly and passes. They run one at a time.

// Tests may unwrap; clippy.toml knows test functions only, not what they call.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "route/emulated.rs"]
mod emulated;
#[path = "route/forwarded.rs"]
mod forwarded;
#[path = "route/house.rs"]
mod house;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use probe::Stop;
use probe::route::{Token, echo, trace};

/// What both ends of these tests know.
pub const TOKEN: Token = *b"0123456789abcdef";

/// Traces whose rounds follow each other soon: no router here answers only so often.
pub fn quick() -> trace::Plan {
    trace::Plan { pause: Duration::from_millis(20), ..trace::Plan::default() }
}

/// Answers probes on a socket while something is done.
pub fn while_answering<T>(node: &UdpSocket, act: impl FnOnce(SocketAddr) -> T) -> T {
    struct StopGuard(Stop);
    impl Drop for StopGuard {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    let stop = Stop::default();
    // What comes while others have the processors is neither late nor lost.
    sys::datagrams::set_receive_buffer(node, 4 << 20).unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let _ = sys::schedule::prefer_this_thread();
            echo::serve(node, |token| *token == TOKEN, Duration::from_secs(120), &stop)
        });
        // A test that fails must not wait for the answers to end by themselves.
        let ends = StopGuard(stop.clone());
        let done = act(node.local_addr().unwrap());
        drop(ends);
        let served = served.join().unwrap().unwrap();
        assert_eq!((served.ignored, served.unsent), (0, 0));
        done
    })
}
