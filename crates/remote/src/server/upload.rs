//! Uploads. The head of a PUT is sent first, with `Expect: 100-continue`; the bytes are sent to the server that accepts it. Servers
//! that manage the names redirect to servers that store the data.

use std::sync::Arc;
use std::time::Duration;

use model::Fault;
use web::client::ClientError;
use web::{Client, Headers, HttpUrl, Method, Response};

use super::redirects::RedirectChain;
use super::{CHANGE_ANSWER_MAX, REFUSAL_BYTES, Server, StreamingResponse, refused};
use crate::request_error::RequestError;
use crate::retries::Retries;

/// The longest wait for `100 Continue`.
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
    pub fn put(
        self: &Arc<Server>,
        url: &HttpUrl,
        headers: &Headers,
        size: Option<u64>,
    ) -> Result<Upload, RequestError> {
        let mut retries = Retries::new(self.settings.patience);
        let mut expect_continue = true;
        loop {
            match self.put_once(url, headers, size, expect_continue) {
                Err(failed) if failed.is(&[417]) && expect_continue => expect_continue = false,
                Err(failed) => self.wait(&mut retries, failed)?,
                Ok(upload) => return Ok(upload),
            }
        }
    }

    fn put_once(
        self: &Arc<Server>,
        url: &HttpUrl,
        headers: &Headers,
        size: Option<u64>,
        expect_continue: bool,
    ) -> Result<Upload, RequestError> {
        let mut headers = match size {
            Some(size) => headers.clone().with("Content-Length", size.to_string()),
            None => headers.clone().with("Transfer-Encoding", "chunked"),
        };
        let expect_continue = expect_continue && size != Some(0);
        if expect_continue {
            headers.add("Expect", "100-continue");
        }
        let mut redirects = RedirectChain::new(url, headers);
        let mut refused_token = None;
        loop {
            let token = if redirects.is_first_server { self.token(&redirects.url)? } else { None };
            let headers = match &token {
                Some(token) => redirects.headers.clone().with("Authorization", format!("Bearer {token}")),
                None => redirects.headers.clone(),
            };
            // A new connection: on a kept one that is dead, half of a file could be sent before the error is reported.
            let mut client = self.dial(&redirects)?;
            client.send(&Method::Put, redirects.url.path_and_query(), &headers)?;
            self.note_transport(&client);
            let upload = |client| Upload {
                server: Arc::clone(self),
                client,
                url: redirects.url.clone(),
                chunked: size.is_none(),
            };
            if !expect_continue {
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
            if redirects.advance(&response, client.conn().peer())? {
                continue;
            }
            if response.status == 401
                && token.is_some()
                && refused_token != token
                && self.token(&redirects.url)? != token
            {
                refused_token = token;
                continue;
            }
            let failed = StreamingResponse { client, response, body, url: redirects.url }.refusal();
            return Err(match failed.status {
                Some(200..300) => RequestError::protocol_error("it answered before it was sent a byte of the file"),
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
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
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
    fn reason(&mut self, error: ClientError) -> RequestError {
        match self.client.final_response_within(&Method::Put, Duration::from_secs(2)) {
            Ok((response, mut body)) if response.status >= 300 => {
                let text = self.client.read_all(&mut body, REFUSAL_BYTES).unwrap_or_default();
                refused(&self.url, &response, &text)
            }
            _ => error.into(),
        }
    }

    /// Ends the body and returns the response.
    ///
    /// # Errors
    /// The connection broke, or the status is not 2xx.
    pub fn finish(mut self) -> Result<Response, RequestError> {
        if self.chunked {
            self.client.write(b"0\r\n\r\n").map_err(|error| self.reason(error))?;
        }
        let (response, mut body) = self.client.final_response_within(&Method::Put, CHANGE_ANSWER_MAX)?;
        let text = self.client.read_all(&mut body, REFUSAL_BYTES);
        if !(200..300).contains(&response.status) {
            let failed = refused(&self.url, &response, &text.unwrap_or_default());
            // A redirect after the body comes too late. The next attempt may get it before the body.
            let late = (300..400).contains(&response.status);
            return Err(if late {
                RequestError { fault: Fault::Path, affects_all_files: true, ..failed }
            } else {
                failed
            });
        }
        if text.is_ok() && !body.ends_with_connection() {
            self.server.keep(&self.url, &response, self.client);
        }
        Ok(response)
    }
}
