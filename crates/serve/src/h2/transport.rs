//! The transport under HTTP/2: a non-blocking socket, with TLS after its handshake, and with the bytes that were already read from
//! the peer. Outgoing bytes are gathered: the library sends every frame of 16 KiB by itself, and a system call for each
//! would cost more than the bytes. So the driver flushes: it calls [`Transport::push`] whenever the library has written all.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustls::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use web::conn::Parts;

use super::frames::Frames;

/// Bytes read from the socket at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes of plaintext fetched at once.
const STAGED_BYTES: usize = 32 << 10;
/// Bytes held back before the socket must take some.
const HELD_BYTES: usize = 256 << 10;

/// The connection, as the HTTP/2 library and its driver use it.
#[derive(Clone)]
pub(super) struct Transport(Rc<RefCell<TransportState>>);

struct TransportState {
    socket: TcpStream,
    tls: Option<Box<Connection>>,
    /// Plaintext that was read ahead, and how far it is taken.
    ahead: (Vec<u8>, usize),
    /// Bytes of the socket that were not processed yet, and how far they are: ciphertext if TLS is used.
    raw: (Vec<u8>, usize),
    /// Plaintext on its way to the library, and how far it is taken.
    staged: (Vec<u8>, usize),
    frames: Frames,
    /// The head of a request has just been handed on: the library must process it before it gets more bytes.
    is_paused: bool,
    /// Bytes for the socket if TLS is not used, and how far they are sent.
    held: (Vec<u8>, usize),
    /// Bytes that were given to TLS since it last had nothing to send.
    sealed: usize,
}

/// The socket as a [`Write`] that returns [`io::ErrorKind::WouldBlock`] instead of waiting.
struct NonBlocking<'a, 'b>(&'a mut TcpStream, &'a mut Context<'b>);

fn or_would_block<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl Write for NonBlocking<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        or_would_block(Pin::new(&mut *self.0).poll_write(self.1, bytes))
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        or_would_block(Pin::new(&mut *self.0).poll_write_vectored(self.1, pieces))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport {
    /// Takes over a blocking connection after its handshake, with the bytes that it has read ahead.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking, or registered with the runtime.
    pub fn new(parts: Parts) -> io::Result<Transport> {
        parts.socket.set_nonblocking(true)?;
        let socket = TcpStream::from_std(parts.socket)?;
        Ok(Transport(Rc::new(RefCell::new(TransportState {
            socket,
            tls: parts.tls.map(Box::new),
            ahead: (parts.inbox, 0),
            raw: (parts.cipher, 0),
            staged: (Vec::new(), 0),
            frames: Frames::new(),
            is_paused: false,
            held: (Vec::new(), 0),
            sealed: 0,
        }))))
    }

    /// Gives the socket as many bytes as it takes; the task is woken when it takes more.
    ///
    /// # Errors
    /// The connection broke.
    pub fn push(&self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.0.borrow_mut().drain(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }

    /// Closes the sending direction, and discards bytes that still come: closing a socket with unread bytes resets the connection, and
    /// loses the last bytes that were sent.
    pub fn shut_down(&self, cx: &mut Context<'_>) -> Poll<()> {
        let socket = &mut self.0.borrow_mut().socket;
        if ready!(Pin::new(&mut *socket).poll_shutdown(cx)).is_err() {
            return Poll::Ready(());
        }
        let mut bytes = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut *socket).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl TransportState {
    fn held_bytes(&self) -> usize {
        if self.tls.is_some() { self.sealed } else { self.held.0.len() - self.held.1 }
    }

    /// Sends what is held back.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut NonBlocking(&mut self.socket, cx)) {
                    Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Ok(sent) => self.sealed = self.sealed.saturating_sub(sent),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                    Err(e) => return Poll::Ready(Err(e)),
                }
            }
            self.sealed = 0;
            return Poll::Ready(Ok(()));
        }
        while self.held.1 < self.held.0.len() {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.held.0[self.held.1..]))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.1 += sent;
        }
        self.held.0.clear();
        self.held.1 = 0;
        Poll::Ready(Ok(()))
    }

    /// Fetches bytes from the socket if none are left. Returns whether there are any.
    fn fetch(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let TransportState { socket, raw, .. } = self;
        if raw.1 < raw.0.len() {
            return Poll::Ready(Ok(true));
        }
        raw.1 = 0;
        raw.0.resize(READ_BYTES, 0);
        let mut buffer = ReadBuf::new(&mut raw.0);
        let fetched = Pin::new(socket).poll_read(cx, &mut buffer);
        let got = buffer.filled().len();
        raw.0.truncate(got);
        // An idle connection keeps no buffer.
        if got == 0 {
            raw.0 = Vec::new();
        }
        ready!(fetched)?;
        Poll::Ready(Ok(got > 0))
    }

    /// Fetches plaintext; none at its end.
    fn stage(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (ahead, taken) = std::mem::take(&mut self.ahead);
        if taken < ahead.len() {
            self.staged = (ahead, taken);
            return Poll::Ready(Ok(()));
        }
        let mut bytes = std::mem::take(&mut self.staged.0);
        bytes.resize(STAGED_BYTES, 0);
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = if self.tls.is_some() { self.read_tls(cx, &mut buffer) } else { self.read_clear(cx, &mut buffer) };
        let got = buffer.filled().len();
        bytes.truncate(got);
        // An idle connection keeps no buffer.
        self.staged = (if got == 0 { Vec::new() } else { bytes }, 0);
        read
    }

    fn read_tls(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let Some(tls) = &mut self.tls else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
            match tls.reader().read(buffer.initialize_unfilled()) {
                Ok(got) => {
                    buffer.advance(got);
                    return Poll::Ready(Ok(()));
                }
                // An end without the close of TLS: the frames themselves show whether anything is missing.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
            if !ready!(self.fetch(cx))? {
                return Poll::Ready(Ok(()));
            }
            let TransportState { socket, tls: Some(tls), raw, .. } = self else { continue };
            let mut rest = &raw.0[raw.1..];
            let before = rest.len();
            tls.read_tls(&mut rest)?;
            raw.1 += before - rest.len();
            if let Err(error) = tls.process_new_packets() {
                // The alert tells the peer what was wrong.
                let _ = tls.write_tls(&mut NonBlocking(socket, cx));
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
        }
    }

    fn read_clear(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if ready!(self.fetch(cx))? {
            let (bytes, taken) = &mut self.raw;
            *taken += copy_into(&bytes[*taken..], buffer);
        }
        Poll::Ready(Ok(()))
    }
}

/// Copies as many bytes as fit into the buffer. Returns their number.
fn copy_into(bytes: &[u8], buffer: &mut ReadBuf<'_>) -> usize {
    let most = bytes.len().min(buffer.remaining());
    buffer.put_slice(&bytes[..most]);
    most
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.borrow_mut();
        let inner = &mut *inner;
        if std::mem::take(&mut inner.is_paused) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if inner.staged.1 == inner.staged.0.len() {
            ready!(inner.stage(cx))?;
        }
        let room = buffer.remaining();
        let (bytes, taken) = &mut inner.staged;
        let waiting = &bytes[*taken..];
        let (span, is_paused) = inner.frames.span(&waiting[..waiting.len().min(room)]);
        buffer.put_slice(&waiting[..span]);
        *taken += span;
        inner.is_paused = is_paused;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.0.borrow_mut();
        if inner.held_bytes() >= HELD_BYTES {
            ready!(inner.drain(cx))?;
        }
        let inner = &mut *inner;
        let Some(tls) = &mut inner.tls else {
            pieces.iter().for_each(|piece| inner.held.0.extend_from_slice(piece));
            return Poll::Ready(Ok(pieces.iter().map(|piece| piece.len()).sum()));
        };
        let taken = tls.writer().write_vectored(pieces)?;
        inner.sealed += taken;
        // The TLS writer accepts nothing only while its own buffer is full, and that limit is higher than `HELD_BYTES`.
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.borrow_mut();
        if let Some(tls) = &mut inner.tls {
            tls.send_close_notify();
        }
        ready!(inner.drain(cx))?;
        Poll::Ready(shut_down(&inner.socket))
    }
}

/// Closes the sending direction. A peer that has disconnected already is not an error.
fn shut_down(socket: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(socket, rustix::net::Shutdown::Write) {
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
