//! Relays connections from this host into a network namespace, so that a browser can reach the services there.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that are relayed at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Accepts connections at an address until this is dropped, and relays each of them until both of its ends have sent all.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
}

impl Relay {
    /// Listens at an address; `connect` makes the other end of each connection.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn start(
        listen: SocketAddr,
        connect: impl Fn() -> io::Result<TcpStream> + Send + Sync + 'static,
    ) -> io::Result<Relay> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_stopped);
        let connect = Arc::new(connect);
        std::thread::Builder::new().name("relay".into()).spawn(move || {
            for client in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(client), connect) = (client, Arc::clone(&connect)) else { continue };
                std::thread::spawn(move || {
                    // If `connect` fails, the connection is closed, and the browser reports that.
                    if let Ok(server) = connect() {
                        relay_both(&client, &server);
                    }
                });
            }
        })?;
        Ok(Relay { address, is_stopped })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

/// Relays bytes in both directions until both ends have sent all.
fn relay_both(client: &TcpStream, server: &TcpStream) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    std::thread::scope(|scope| {
        scope.spawn(|| relay_one_way(client, server));
        relay_one_way(server, client);
    });
}

/// Relays bytes in one direction, and the end of the stream.
fn relay_one_way(mut from: &TcpStream, mut to: &TcpStream) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count) = from.read(&mut piece)
        && count > 0
        && to.write_all(&piece[..count]).is_ok()
    {}
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_the_end_are_relayed_in_both_directions() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        let echo = std::thread::spawn(move || {
            let (mut socket, _) = server.accept().unwrap();
            let mut all = Vec::new();
            socket.read_to_end(&mut all).unwrap();
            all.reverse();
            socket.write_all(&all).unwrap();
        });
        let relay = Relay::start("127.0.0.1:0".parse().unwrap(), move || TcpStream::connect(to)).unwrap();
        let mut client = TcpStream::connect(relay.address).unwrap();
        client.write_all(b"abc").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "cba");
        echo.join().unwrap();
    }
}
