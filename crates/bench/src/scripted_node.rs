//! A node that moves nothing: it accepts every transfer that a hub orders, and reports progress that it invents. With it, a hub with a
//! thousand transfers can be measured without moving any data.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use model::id::Uuid;
use model::v1::node::FileResults;
use model::v1::{Stage, Transfer};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The bytes and the rate that the node reports for each transfer.
const TOTAL_BYTES: u64 = 100 << 30;
const RATE_BIT_S: u64 = 8_000_000;

/// When each transfer began.
type Begun = Arc<Mutex<HashMap<Uuid, Instant>>>;

/// Listens on loopback until the program ends; returns the address.
///
/// # Errors
/// No port is free, or no thread can be started.
pub fn start() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let begun = Begun::default();
    std::thread::Builder::new().name("scripted-node".into()).spawn(move || {
        for socket in listener.incoming().flatten() {
            let begun = Arc::clone(&begun);
            // A hub keeps a connection for each transfer: the threads are many, and get small stacks.
            let thread = std::thread::Builder::new().stack_size(256 << 10);
            let _ = thread.spawn(move || serve(&socket, &begun));
        }
    })?;
    Ok(address)
}

/// Answers the requests of a connection until it ends.
fn serve(socket: &TcpStream, begun: &Begun) -> Result<()> {
    socket.set_nodelay(true)?;
    let mut input = BufReader::new(socket);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let (method, target) =
            (words.next().context("no method")?.to_owned(), words.next().context("no target")?.to_owned());
        let mut length = 0;
        loop {
            let mut field = String::new();
            input.read_line(&mut field)?;
            let field = field.trim().to_ascii_lowercase();
            match field.strip_prefix("content-length:") {
                Some(value) => length = value.trim().parse()?,
                None if field.is_empty() => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body)?;
        let (status, answer) = answer(&method, &target, &body, begun);
        let text = answer.to_string();
        let mut output = socket;
        write!(
            output,
            "HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )?;
    }
}

fn answer(method: &str, target: &str, body: &[u8], begun: &Begun) -> (u16, Value) {
    let path = target.split('?').next().unwrap_or_default();
    let rest = path.strip_prefix("/api/v1/transfers").unwrap_or_default().trim_start_matches('/');
    if method == "POST" {
        let order: Value = serde_json::from_slice(body).unwrap_or_default();
        let id: Uuid = order["id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default();
        begun.lock().entry(id).or_insert_with(Instant::now);
        return (201, json!(transfer(id, begun)));
    }
    let id: Uuid = rest.split('/').next().and_then(|id| id.parse().ok()).unwrap_or_default();
    if rest.ends_with("/files") {
        return (200, json!(FileResults::default()));
    }
    (200, json!(transfer(id, begun)))
}

fn transfer(id: Uuid, begun: &Begun) -> Transfer {
    let seconds = begun.lock().get(&id).map_or(0.0, |begun| begun.elapsed().as_secs_f64());
    Transfer {
        id,
        state: Stage::Running,
        bytes: (seconds * RATE_BIT_S as f64 / 8.0) as u64,
        bytes_total: TOTAL_BYTES,
        files_total: 1,
        rate_bit_s: RATE_BIT_S,
        seconds,
        ..Transfer::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordered_transfer_is_reported_as_running() {
        let begun = Begun::default();
        let id = Uuid::now_v7();
        let (status, _) = answer("POST", "/api/v1/transfers", json!({"id": id}).to_string().as_bytes(), &begun);
        let (_, reply) = answer("GET", &format!("/api/v1/transfers/{id}"), &[], &begun);
        assert_eq!((status, &reply["state"], &reply["id"]), (201, &json!("running"), &json!(id)));
    }
}
