//! Reading a whole file over one connection, by requests that do not wait for the answers to earlier ones: the key of a third-party copy
//! opens a file only once.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};

use model::name::RelPath;
use store::Result;
use store::error::shown;
use xroot::{QueryKind, RootRequest};

use super::Root;
use super::connection::{RootReply, RootResult};
use super::pipelined_reads::PipelinedReads;
use super::reading::Opening;
use super::redirect_chain::RedirectChain;
use crate::ahead::AHEAD;
use crate::request_error::RequestError;

/// Requests under way.
const REQUESTS_MAX: usize = AHEAD as usize + 1;

/// A file that is open to be read once.
pub struct WholeRead {
    root: Root,
    path: RelPath,
    reads: PipelinedReads,
    size: u64,
}

/// Ends the reading of a file from another thread, also while its server is silent.
#[derive(Debug)]
pub struct ReadInterrupter(TcpStream);

impl ReadInterrupter {
    /// Breaks the connection: the read fails at once.
    pub fn interrupt(&self) {
        // An error means that it is broken already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Root {
    /// Opens a file to read it once, whole.
    ///
    /// # Errors
    /// It cannot be opened, or the server does not say its size.
    pub fn open_whole(&self, path: &RelPath) -> Result<WholeRead> {
        self.try_open_whole(path).map_err(|failed| failed.into_store_error("open", path))
    }

    fn try_open_whole(&self, path: &RelPath) -> RootResult<WholeRead> {
        let mut chain = RedirectChain::new(self.0.server.origin(), None);
        loop {
            let (mut connection, _) = self.0.server.connection(chain.to())?;
            match self.open_on(&mut connection, path, chain.to())? {
                Opening::Opened(open) => {
                    let facts = open.facts.ok_or_else(|| self.wrong("a file without its size"))?;
                    if facts.is_dir() {
                        return Err(RequestError::config_error(format!("{} is a directory", shown(path))));
                    }
                    let reads = PipelinedReads::new(self.clone(), connection, open.file);
                    return Ok(WholeRead { root: self.clone(), path: path.clone(), reads, size: facts.size });
                }
                Opening::Elsewhere(next) => chain.follow(next)?,
            }
        }
    }
}

impl WholeRead {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The address of the server that the file is open at.
    pub fn peer(&self) -> SocketAddr {
        self.reads.connection.conn.peer()
    }

    /// Whether the connection speaks TLS.
    pub fn is_secure(&self) -> bool {
        self.reads.connection.is_secure
    }

    /// Asks the server about the open file (`kXR_Qopaqug`).
    ///
    /// # Errors
    /// The server does not know the question, or the connection breaks.
    pub fn ask_about(&mut self, question: &[u8]) -> Result<Vec<u8>> {
        let kind = QueryKind::OpaqueOfFile.number();
        let request = RootRequest::Query { kind, file: self.reads.file, text: question.to_vec() };
        match self.reads.connection.ask(&request) {
            Ok(RootReply::Done(answer)) => Ok(answer),
            Ok(RootReply::Elsewhere(_)) => {
                Err(self.root.wrong("another server for an open file").into_store_error("ask about", &self.path))
            }
            Err(failed) => Err(failed.into_store_error("ask about", &self.path)),
        }
    }

    /// Ends this read from another thread.
    ///
    /// # Errors
    /// This process has no descriptor left.
    pub fn interrupter(&self) -> io::Result<ReadInterrupter> {
        self.reads.connection.conn.socket().try_clone().map(ReadInterrupter)
    }

    /// Reads all of it. `take` gets the bytes with their offsets, which may be out of order, and ends the reading by `false`.
    ///
    /// # Errors
    /// The server cannot read the file or breaks the protocol, or the connection breaks.
    pub fn read(mut self, take: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<()> {
        let path = self.path.clone();
        let read = self.reads.read(0..self.size, REQUESTS_MAX, take);
        read.map(|_| ()).map_err(|failed| failed.into_store_error("read", &path))
    }
}
