//! Uploads. The head of a PUT goes first, with `Expect: 100-continue`; the bytes go to the server that accepts it. Servers that
//! hold the names redirect to servers that hold the bytes.

use std::sync::Arc;
use std::time::Duration;

use model::Fault;
use web::client::ClientError;
use web::{Client, Headers, HttpUrl, Method, Response};

use super::redirects::RedirectChain;
use super::{REFUSAL_BYTES, SETTLE, Server, StreamingResponse, refused};
use crate::failed::Failed;
use crate::patience::Patience;

/// The time for which `100 Continue` is waited for.
const EXPECT: Duration = Duration::from_secs(5);

/// A PUT whose head has been sent.
pub(crate) struct Upload {
    server: Arc<Server>,
    client: Client,
    url: HttpUrl,
    chunked: bool,
}

impl Server {
    /// Begins an upload. A failure that passes is tried again.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the upload by its head.
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
        let mut redirects = RedirectChain::new(url, headers);
        let mut stale = None;
        loop {
            let token = if redirects.own { self.token(&redirects.url)? } else { None };
            let shown = match &token {
                Some(token) => redirects.headers.clone().with("Authorization", format!("Bearer {token}")),
                None => redirects.headers.clone(),
            };
            // A fresh connection: a kept one that is dead could take half a file before it reports an error.
            let mut client = self.dial(&redirects)?;
            client.send(&Method::Put, redirects.url.path_and_query(), &shown)?;
            self.carries(&client);
            let upload = |client| Upload {
                server: Arc::clone(self),
                client,
                url: redirects.url.clone(),
                chunked: size.is_none(),
            };
            if !expects {
                return Ok(upload(client));
            }
            let (response, body) = match client.receive_within(&Method::Put, EXPECT) {
                Ok((response, _)) if response.status < 200 => return Ok(upload(client)),
                // A silent server waits for the body.
                Err(ClientError::Broken { source, .. }) if source.kind() == std::io::ErrorKind::TimedOut => {
                    return Ok(upload(client));
                }
                answer => answer?,
            };
            if redirects.goes_on(&response, client.conn().peer())? {
                continue;
            }
            if response.status == 401 && token.is_some() && stale != token && self.token(&redirects.url)? != token {
                stale = token;
                continue;
            }
            let failed = StreamingResponse { client, response, body, url: redirects.url }.refusal();
            return Err(match failed.status {
                Some(200..300) => Failed::peer("it answered before it had a byte of the file"),
                _ => failed,
            });
        }
    }
}

impl Upload {
    /// Sends the next bytes.
    ///
    /// # Errors
    /// The connection broke, or the server refuses the rest.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        if bytes.is_empty() {
            return Ok(());
        }
        let sent = if self.chunked { self.write_chunk(bytes) } else { self.client.write(bytes) };
        sent.map_err(|error| self.reason(error))
    }

    fn write_chunk(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.client.write(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        self.client.write(bytes)?;
        self.client.write(b"\r\n")
    }

    /// Why the connection broke: a server that refuses the rest often answers before it closes the connection.
    fn reason(&mut self, error: ClientError) -> Failed {
        match self.client.answer_within(&Method::Put, Duration::from_secs(2)) {
            Ok((response, mut body)) if response.status >= 300 => {
                let said = self.client.read_all(&mut body, REFUSAL_BYTES).unwrap_or_default();
                refused(&self.url, &response, &said)
            }
            _ => error.into(),
        }
    }

    /// Ends the body and returns the response.
    ///
    /// # Errors
    /// The connection broke, or the status is not 2xx.
    pub fn finish(mut self) -> Result<Response, Failed> {
        if self.chunked {
            self.client.write(b"0\r\n\r\n").map_err(|error| self.reason(error))?;
        }
        let (response, mut body) = self.client.answer_within(&Method::Put, SETTLE)?;
        let said = self.client.read_all(&mut body, REFUSAL_BYTES);
        if !(200..300).contains(&response.status) {
            let failed = refused(&self.url, &response, &said.unwrap_or_default());
            // A redirect after the body comes too late. The next attempt may get it before the body.
            let late = (300..400).contains(&response.status);
            return Err(if late { Failed { fault: Fault::Path, general: true, ..failed } } else { failed });
        }
        if said.is_ok() && !body.ends_with_line() {
            self.server.keep(&self.url, &response, self.client);
        }
        Ok(response)
    }
}
