//! Reads files and URLs whole: templates and their includes, counters of interfaces.

use std::io::Read;

use web::{Dialer, Headers, HttpUrl, Method};

/// The largest file or answer, bytes.
const BYTES_MAX: usize = 16 << 20;

/// The bytes of a file (a path or `file://`), or of a URL (`http://` or `https://`).
///
/// # Errors
/// It cannot be read, or is too long.
pub fn bytes(from: &str, dialer: &Dialer) -> Result<Vec<u8>, String> {
    if !from.starts_with("http://") && !from.starts_with("https://") {
        return file(from.strip_prefix("file://").unwrap_or(from));
    }
    let url = HttpUrl::parse(from).map_err(|error| format!("{from}: {error}"))?;
    let failed = |error: web::ClientError| format!("{from}: {}", model::fault::with_causes(&error));
    let mut answer = web::client::fetch(dialer, &Method::Get, &url, &Headers::new()).map_err(failed)?;
    if !(200..300).contains(&answer.response.status) {
        return Err(format!("{from} answers {}", answer.response.status));
    }
    answer.client.read_all(&mut answer.body, BYTES_MAX).map_err(failed)
}

fn file(path: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(failed)?.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > BYTES_MAX { Err(format!("{path} is longer than {BYTES_MAX} bytes")) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::*;

    fn dialer() -> Dialer {
        let roots = Arc::new(rustls::RootCertStore::empty());
        crate::notify::dialer(auth::client_certificate::http_client_config(roots, None).unwrap())
    }

    /// A server that answers one request with this head.
    fn server(head: &'static str) -> (String, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/part", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let lines = BufReader::new(socket.try_clone().unwrap()).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            socket.write_all(head.as_bytes()).unwrap();
        });
        (url, served)
    }

    #[test]
    fn files_and_urls_are_read_whole_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("part").display().to_string();
        std::fs::write(&path, "here").unwrap();
        assert_eq!(bytes(&path, &dialer()).unwrap(), b"here");
        assert_eq!(bytes(&format!("file://{path}"), &dialer()).unwrap(), b"here");
        assert!(bytes(&format!("{path}?"), &dialer()).unwrap_err().contains("No such file"));
        std::fs::File::create(&path).unwrap().set_len(BYTES_MAX as u64 + 1).unwrap();
        assert!(bytes(&path, &dialer()).unwrap_err().contains("longer than 16777216 bytes"));
        let (url, served) = server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthere");
        assert_eq!(bytes(&url, &dialer()).unwrap(), b"there");
        served.join().unwrap();
        let (url, served) = server("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(bytes(&url, &dialer()).unwrap_err(), format!("{url} answers 404"));
        served.join().unwrap();
        let (url, served) = server("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n");
        assert!(bytes(&url, &dialer()).is_err(), "the answer would be too long");
        served.join().unwrap();
    }
}
