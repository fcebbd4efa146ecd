//! Routes over real sockets: through the lab's emulated paths, and through kernels that forward.
//!
//! Needs root. If namespaces cannot be made, each test reports that on stderr and passes. The tests run one at a time.

// Tests may unwrap: clippy.toml permits it in test functions, but not in the functions that they call.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "route/emulated.rs"]
mod emulated;
#[path = "route/forwarded.rs"]
mod forwarded;
#[path = "route/network.rs"]
mod network;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use probe::Stop;
use probe::route::{Token, echo, trace};

/// The token that both ends of these tests know.
pub const TOKEN: Token = *b"0123456789abcdef";

/// A plan with short pauses between rounds: no router here limits the rate of its answers.
pub fn quick() -> trace::Plan {
    trace::Plan { pause: Duration::from_millis(20), ..trace::Plan::default() }
}

/// Answers probes on a socket while `act` runs.
pub fn while_answering<T>(node: &UdpSocket, act: impl FnOnce(SocketAddr) -> T) -> T {
    struct StopGuard(Stop);
    impl Drop for StopGuard {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    let stop = Stop::default();
    // Probes that arrive while other processes have the processors are neither late nor lost.
    sys::datagrams::set_receive_buffer(node, 4 << 20).unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let _ = sys::schedule::set_realtime();
            echo::serve(node, |token| *token == TOKEN, Duration::from_secs(120), &stop)
        });
        // A failed test must not wait until the answers end by themselves.
        let guard = StopGuard(stop.clone());
        let result = act(node.local_addr().unwrap());
        drop(guard);
        let served = served.join().unwrap().unwrap();
        assert_eq!((served.ignored, served.unsent), (0, 0));
        result
    })
}
