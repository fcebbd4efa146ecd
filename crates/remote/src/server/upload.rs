//! A file on its way to a server: its head goes first, and its bytes to whoever says that he takes them. Servers that know names
//! send on to those that keep bytes.

use std::sync::Arc;
use std::time::Duration;

use model::Fault;
use web::client::ClientError;
use web::{Client, Headers, HttpUrl, Method, Response};

use super::way::Way;
use super::{Begun, REFUSAL_BYTES, SETTLE, Server, refused};
use crate::failed::Failed;
use crate::patience::Patience;

/// How long a server may take to say that it wants the body.
const EXPECT: Duration = Duration::from_secs(5);

/// A file whose bytes come next.
pub(crate) struct Upload {
    server: Arc<Server>,
    client: Client,
    url: HttpUrl,
    chunked: bool,
}

impl Server {
    /// Begins to send a file.
    pub fn put(self: &Arc<Server>, url: &HttpUrl, headers: &Headers, size: Option<u64>) -> Result<Upload, Failed> {
        let mut patience = Patience::new(self.means.patience);
        let mut expects = true;
        loop {
            match self.put_once(url, headers, size, expects) {
                Err(failed) if failed.is(&[417]) && expects => expects = false,
                Err(failed) => self.wait(&mut patience, failed)?,
                Ok(upload) => return Ok(upload),
            }
        }
    }

    fn put_once(
        self: &Arc<Server>,
        url: &HttpUrl,
        headers: &Headers,
        size: Option<u64>,
        expects: bool,
    ) -> Result<Upload, Failed> {
        let mut headers = match size {
            Some(size) => headers.clone().with("Content-Length", size.to_string()),
            None => headers.clone().with("Transfer-Encoding", "chunked"),
        };
        let expects = expects && size != Some(0);
        if expects {
            headers.add("Expect", "100-continue");
        }
        let (mut way, mut stale) = (Way::new(url, headers), None);
        loop {
            let token = if way.own { self.token(&way.url)? } else { None };
            let shown = match &token {
                Some(token) => way.headers.clone().with("Authorization", format!("Bearer {token}")),
                None => way.headers.clone(),
            };
            // A fresh connection: one that has died meanwhile could take half a file before it says so.
            let mut client = self.dial(&way)?;
            client.send(&Method::Put, way.url.path_and_query(), &shown)?;
            self.carries(&client);
            let upload =
                |client| Upload { server: Arc::clone(self), client, url: way.url.clone(), chunked: size.is_none() };
            if !expects {
                return Ok(upload(client));
            }
            let (response, body) = match client.receive_within(&Method::Put, EXPECT) {
                Ok((response, _)) if response.status < 200 => return Ok(upload(client)),
                // Says nothing: it waits for the body.
                Err(ClientError::Broken { source, .. }) if source.kind() == std::io::ErrorKind::TimedOut => {
                    return Ok(upload(client));
                }
                answer => answer?,
            };
            if way.goes_on(&response, client.conn().peer())? {
                continue;
            }
            if response.status == 401 && token.is_some() && stale != token && self.token(&way.url)? != token {
                stale = token;
                continue;
            }
            let failed = Begun { client, response, body, url: way.url }.refusal();
            return Err(match failed.status {
                Some(200..300) => Failed::peer("it answered before it had a byte of the file"),
                _ => failed,
            });
        }
    }
}

impl Upload {
    /// The next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        if bytes.is_empty() {
            return Ok(());
        }
        let sent = match self.chunked {
            true => self
                .client
                .write(format!("{:x}\r\n", bytes.len()).as_bytes())
                .and_then(|()| self.client.write(bytes))
                .and_then(|()| self.client.write(b"\r\n")),
            false => self.client.write(bytes),
        };
        sent.map_err(|error| self.reason(error))
    }

    /// Why the line broke: a server that does not want the rest often says so before it hangs up.
    fn reason(&mut self, error: ClientError) -> Failed {
        match self.client.answer_within(&Method::Put, Duration::from_secs(2)) {
            Ok((response, mut body)) if response.status >= 300 => {
                let said = self.client.read_all(&mut body, REFUSAL_BYTES).unwrap_or_default();
                refused(&self.url, &response, &said)
            }
            _ => error.into(),
        }
    }

    /// All bytes have been sent: the server's answer.
    pub fn finish(mut self) -> Result<Response, Failed> {
        if self.chunked {
            self.client.write(b"0\r\n\r\n").map_err(|error| self.reason(error))?;
        }
        let (response, mut body) = self.client.answer_within(&Method::Put, SETTLE)?;
        let said = self.client.read_all(&mut body, REFUSAL_BYTES);
        if !(200..300).contains(&response.status) {
            let failed = refused(&self.url, &response, &said.unwrap_or_default());
            // Too late to go where it should have gone: the next attempt may be told in time.
            let late = (300..400).contains(&response.status);
            return Err(if late { Failed { fault: Fault::Path, general: true, ..failed } } else { failed });
        }
        if said.is_ok() && !body.ends_with_line() {
            self.server.keep(&self.url, &response, self.client);
        }
        Ok(response)
    }
}
