//! A collector of fireflies (scitags.org): one UDP datagram per flow and state.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// Keeps what arrives.
pub struct Collector {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    /// Listens as long as the process lives.
    pub fn start(socket: UdpSocket) -> Collector {
        let (address, seen) = (socket.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let keeps = seen.clone();
        std::thread::spawn(move || {
            let mut datagram = [0; 65_536];
            while let Ok(bytes) = socket.recv(&mut datagram) {
                let text = String::from_utf8_lossy(&datagram[..bytes]).into_owned();
                // A line of syslog, and JSON behind it.
                let object = text.find('{').and_then(|at| serde_json::from_str(&text[at..]).ok());
                keeps.lock().unwrap().push(object.unwrap_or(Value::String(text)));
            }
        });
        Collector { address, seen }
    }

    /// The fireflies of an activity.
    pub fn of_activity(&self, activity: u64) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|firefly| firefly["context"]["activity-id"] == activity).cloned().collect()
    }
}
