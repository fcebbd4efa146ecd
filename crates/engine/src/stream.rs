//! One data stream: records over a blocking TCP socket, sealed or plain, through one reused buffer.
//!
//! The buffer's layout puts the payload at a fixed, page-aligned place and the table, whose length varies, right
//! before it, so that neither end copies a block to make room:
//!
//! ```text
//! … | head 8 | table | check | payload … | tag
//!                            ^ PAYLOAD_AT
//! ```

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use model::tcp::TcpInfo;
use model::v1;
use wire::error::WireError;
use wire::limits::{RECORD_PARTS_MAX, RECORD_PAYLOAD_BYTES_MAX};
use wire::record::{self, HEAD_BYTES, Head, Part, ROW_BYTES};

use crate::error::{Error, Result};
use crate::meter::{Meter, Stage};
use crate::seal::{Sealer, TAG_BYTES};

/// Where the payload starts in the buffer: behind the largest head and table, on a page.
pub const PAYLOAD_AT: usize = (HEAD_BYTES + RECORD_PARTS_MAX * ROW_BYTES + record::CHECK_BYTES).next_multiple_of(4096);

/// Where direct input and output want their memory to begin.
const ALIGNMENT: usize = 4096;

/// A buffer for one record.
pub struct RecordBuffer {
    bytes: Vec<u8>,
    /// Where in `bytes` the payload starts: on a page of memory, so that it can be written past the page cache.
    payload_at: usize,
    payload_len: usize,
    /// Only zeros lie behind this offset of the payload area.
    dirty: usize,
}

impl Default for RecordBuffer {
    fn default() -> RecordBuffer {
        let bytes = vec![0; ALIGNMENT + PAYLOAD_AT + RECORD_PAYLOAD_BYTES_MAX + TAG_BYTES];
        // A vector that does not grow stays where it is.
        let payload_at = PAYLOAD_AT + bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        RecordBuffer { bytes, payload_at, payload_len: 0, dirty: 0 }
    }
}

impl RecordBuffer {
    /// Empties the buffer.
    pub fn clear(&mut self) {
        self.payload_len = 0;
    }

    /// Room for payload that is not used yet.
    pub fn free(&mut self) -> &mut [u8] {
        self.dirty = RECORD_PAYLOAD_BYTES_MAX;
        let from = self.payload_at + self.payload_len;
        &mut self.bytes[from..self.payload_at + RECORD_PAYLOAD_BYTES_MAX]
    }

    /// Takes the first bytes of [`RecordBuffer::free`] as payload and returns them.
    pub fn take(&mut self, len: usize) -> &[u8] {
        let from = self.payload_at + self.payload_len;
        self.payload_len += len;
        &self.bytes[from..from + len]
    }

    /// Takes `len` zeros as payload, without a write where the buffer has them already.
    pub fn take_zeros(&mut self, len: usize) -> &[u8] {
        let from = self.payload_at + self.payload_len;
        if self.dirty > self.payload_len {
            self.bytes[from..from + len].fill(0);
            // Where the zeros end before `dirty`, the bytes between may still be other than zero.
            let covers_all = self.payload_len + len >= self.dirty;
            self.dirty = if covers_all { self.payload_len } else { self.dirty };
        }
        self.take(len)
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.payload_at..self.payload_at + self.payload_len]
    }

    /// Puts head and table before the payload and returns where the record starts.
    fn frame(&mut self, parts: &[Part]) -> (Head, usize) {
        let head = Head::new(parts.len(), self.payload_len);
        let table_at = self.payload_at - head.table_len();
        record::encode_table(&head, parts, &mut self.bytes[table_at..self.payload_at]);
        self.bytes[table_at - HEAD_BYTES..table_at].copy_from_slice(&head.encode());
        (head, table_at - HEAD_BYTES)
    }

    /// The whole record in clear, for the control connection.
    pub fn to_inline(&mut self, parts: &[Part]) -> Vec<u8> {
        let (_, at) = self.frame(parts);
        self.bytes[at..self.payload_at + self.payload_len].to_vec()
    }

    /// Reads a record that came on the control connection into the buffer.
    ///
    /// # Errors
    /// The record is malformed or damaged.
    pub fn from_inline(&mut self, record: &[u8]) -> std::result::Result<Vec<Part>, WireError> {
        let head = record.first_chunk::<HEAD_BYTES>().ok_or(WireError::Short("an inline record"))?;
        let head = Head::decode(head)?;
        let body = &record[HEAD_BYTES..];
        if body.len() != head.body_len || head.parts == 0 {
            return Err(WireError::Invalid("an inline record's length"));
        }
        let parts = record::decode_table(&head, body)?;
        let payload = &body[head.table_len()..];
        self.dirty = RECORD_PAYLOAD_BYTES_MAX;
        self.bytes[self.payload_at..self.payload_at + payload.len()].copy_from_slice(payload);
        self.payload_len = payload.len();
        Ok(parts)
    }
}

/// Is told of the streams of a job, for reports about its traffic.
pub trait StreamMarker: Send + Sync + std::fmt::Debug {
    /// A stream begins to carry the job over a connection. What is returned is dropped when it no longer does; the connection must not
    /// be kept longer.
    fn begin(&self, socket: &TcpStream, is_sender: bool) -> Box<dyn Send>;
}

/// A connection that has joined a session.
pub struct Joined {
    /// The connection.
    pub socket: TcpStream,
    /// Its number in the session.
    pub id: u32,
    /// The connection's permit; dropping it gives the permit back.
    pub permit: StreamPermit,
}

/// A connection's place in a node's limit on connections.
pub type StreamPermit = Box<dyn Send + Sync>;

/// A data stream, after its join.
pub struct DataStream {
    socket: TcpStream,
    permit: Option<StreamPermit>,
    id: u32,
    peer: String,
    seal: Option<Sealer>,
    open: Option<Sealer>,
    bytes: u64,
    meter: Arc<Meter>,
    /// The kernel's counters when the job began.
    base: TcpInfo,
    /// Its highest rate while a queue stood on its path, bytes per second: its share of the path.
    share: Arc<AtomicU64>,
    /// The addresses of this end and of the peer at the start: a connection that is over has none.
    addresses: (String, String),
    may_stay: bool,
}

impl DataStream {
    /// A stream over a joined socket. The first sealer is for the records that this end sends, the second for those that it receives.
    pub fn new(socket: TcpStream, id: u32, peer: String, sealers: Option<(Sealer, Sealer)>) -> DataStream {
        let (seal, open) = sealers.unzip();
        DataStream {
            addresses: (address_text(socket.local_addr()), address_text(socket.peer_addr())),
            socket,
            permit: None,
            id,
            peer,
            seal,
            open,
            bytes: 0,
            meter: Arc::default(),
            base: TcpInfo::default(),
            share: Arc::default(),
            may_stay: true,
        }
    }

    /// Keeps the permit for as long as the stream lives.
    pub fn with_permit(mut self, permit: StreamPermit) -> DataStream {
        self.permit = Some(permit);
        self
    }

    /// Ends the stream with its job: it is not kept for the session's next one.
    pub fn limit_to_one_job(&mut self) {
        self.may_stay = false;
    }

    /// Whether it may carry the session's next job.
    pub fn may_stay(&self) -> bool {
        self.may_stay
    }

    /// Begins a job on a stream that has carried another: its numbers start at zero.
    pub fn begin(&mut self) {
        self.bytes = 0;
        self.meter = Arc::default();
        self.base = sys::tcp::info(&self.socket).unwrap_or_default();
    }

    /// Its share of the path, as measured so far: bytes per second, 0 where no queue was seen.
    pub fn share(&self) -> &Arc<AtomicU64> {
        &self.share
    }

    /// The kernel's counters when the job began.
    pub fn base(&self) -> &TcpInfo {
        &self.base
    }

    /// Its number in the session.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The meter of the thread that runs this stream.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// The address of the other end; none where the connection is over.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// A second handle of the socket, by which another thread can end both directions.
    ///
    /// # Errors
    /// The socket cannot be duplicated.
    pub fn handle(&self) -> io::Result<TcpStream> {
        self.socket.try_clone()
    }

    /// Whether the receiver has closed this stream, which it does only when it has failed.
    pub fn is_lost(&self) -> bool {
        sys::tcp::is_closed_by_peer(&self.socket)
    }

    /// Sends the buffer's payload as one record.
    ///
    /// # Errors
    /// The record cannot be sealed, or the connection breaks.
    pub fn send(&mut self, parts: &[Part], buffer: &mut RecordBuffer) -> Result<()> {
        let (head, at) = buffer.frame(parts);
        let mut end = buffer.payload_at + buffer.payload_len;
        self.meter.enter(Stage::Compute);
        if let Some(sealer) = &mut self.seal {
            buffer.dirty = RECORD_PAYLOAD_BYTES_MAX;
            let body = &mut buffer.bytes[at + HEAD_BYTES..end];
            let tag = sealer.seal(&head.encode(), body).map_err(|_| Error::Seal { peer: self.peer.clone() })?;
            buffer.bytes[end..end + TAG_BYTES].copy_from_slice(&tag);
            end += TAG_BYTES;
        }
        self.bytes += buffer.payload_len as u64;
        self.meter.enter(Stage::Socket);
        let sent = (&self.socket).write_all(&buffer.bytes[at..end]);
        self.meter.count_record();
        sent.map_err(|source| self.broken(source))
    }

    /// Receives one record; none at the end of the stream, and one without parts where only the job's records end.
    ///
    /// # Errors
    /// The record is malformed or does not open, or the connection breaks.
    pub fn receive(&mut self, buffer: &mut RecordBuffer) -> Result<Option<Vec<Part>>> {
        self.meter.enter(Stage::Socket);
        let mut head_bytes = [0; HEAD_BYTES];
        if !self.read_head(&mut head_bytes)? {
            return Ok(None);
        }
        let head = Head::decode(&head_bytes).map_err(|source| self.breach(source))?;
        let at = buffer.payload_at - head.table_len();
        let tag = if self.open.is_some() { TAG_BYTES } else { 0 };
        buffer.dirty = RECORD_PAYLOAD_BYTES_MAX;
        let body = &mut buffer.bytes[at..at + head.body_len + tag];
        let read = (&self.socket).read_exact(body);
        read.map_err(|source| Error::Broken { peer: self.peer.clone(), source })?;
        self.meter.enter(Stage::Compute);
        self.meter.count_record();
        if let Some(sealer) = &mut self.open {
            sealer.open(&head_bytes, body).map_err(|_| Error::Seal { peer: self.peer.clone() })?;
        }
        let parts = record::decode_table(&head, body).map_err(|source| self.breach(source))?;
        buffer.payload_len = head.payload_len();
        self.bytes += head.payload_len() as u64;
        Ok(Some(parts))
    }

    /// Reads a head; `false` at the end of the stream, which must lie between records.
    fn read_head(&self, head: &mut [u8; HEAD_BYTES]) -> Result<bool> {
        let mut got = 0;
        while got < head.len() {
            match (&self.socket).read(&mut head[got..]) {
                Ok(0) if got == 0 => return Ok(false),
                Ok(0) => return Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(more) => got += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.broken(e)),
            }
        }
        Ok(true)
    }

    /// Marks the end of the job's records on a stream that is kept for the next job.
    ///
    /// # Errors
    /// The mark cannot be sealed, or the connection breaks.
    pub fn mark(&mut self) -> Result<()> {
        let head = Head::mark();
        let mut bytes = head.encode().to_vec();
        bytes.resize(HEAD_BYTES + head.body_len, 0);
        record::encode_table(&head, &[], &mut bytes[HEAD_BYTES..]);
        if let Some(sealer) = &mut self.seal {
            let sealed = sealer.seal(&head.encode(), &mut bytes[HEAD_BYTES..]);
            bytes.extend_from_slice(&sealed.map_err(|_| Error::Seal { peer: self.peer.clone() })?);
        }
        // A kernel that cannot pace has no pacing to end.
        let _ = sys::tcp::set_pacing(&self.socket, u64::MAX);
        (&self.socket).write_all(&bytes).map_err(|source| self.broken(source))
    }

    /// Ends the sending direction: no more records follow.
    pub fn finish(&self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// The kernel's facts about this stream, in the form of a receipt.
    pub fn facts(&self) -> v1::Stream {
        let payload = if self.seal.is_some() { "sealed" } else { "plain" };
        let (address, peer_address) = self.addresses.clone();
        v1::Stream { address, peer_address, ..facts(&self.socket, self.id, self.bytes, payload, &self.base) }
    }

    /// The error of a stream that the other end closed before the job was over.
    pub fn lost(&self) -> Error {
        self.broken(io::ErrorKind::ConnectionReset.into())
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Broken { peer: self.peer.clone(), source }
    }

    fn breach(&self, source: WireError) -> Error {
        Error::Protocol { peer: self.peer.clone(), source }
    }
}

/// The kernel's facts about a socket, in the form of a receipt: its counters since `base`.
pub fn facts(socket: &TcpStream, id: u32, bytes: u64, payload: &str, base: &TcpInfo) -> v1::Stream {
    let info = sys::tcp::info(socket).unwrap_or_default().since(base);
    v1::Stream {
        id,
        bytes,
        rtt_s: info.rtt.as_secs_f64(),
        min_rtt_s: info.min_rtt.as_secs_f64(),
        retransmits: info.retransmits,
        cwnd_segments: info.cwnd_segments,
        mss_bytes: info.mss_bytes,
        delivery_rate_bit_s: info.delivery_rate_bytes_s.saturating_mul(8),
        receive_window_limited_s: info.receive_window_limited.as_secs_f64(),
        send_buffer_limited_s: info.send_buffer_limited.as_secs_f64(),
        busy_s: info.busy.as_secs_f64(),
        sent_bytes: info.bytes_sent,
        resent_bytes: info.bytes_retransmitted,
        window_bytes: info.send_window_bytes,
        window_scaling: info.window_scaling,
        congestion: sys::tcp::congestion(socket),
        payload: payload.into(),
        address: address_text(socket.local_addr()),
        peer_address: address_text(socket.peer_addr()),
    }
}

/// An address in the usual form; empty where the connection is over.
fn address_text(address: io::Result<SocketAddr>) -> String {
    address.map_or_else(|_| String::new(), |at| SocketAddr::new(at.ip().to_canonical(), at.port()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_zeros_whatever_the_buffer_held() {
        let mut buffer = RecordBuffer::default();
        assert!(buffer.take_zeros(1000).iter().all(|b| *b == 0));
        buffer.clear();
        buffer.free()[..5000].fill(7);
        buffer.take(100);
        assert!(buffer.take_zeros(300).iter().all(|b| *b == 0));
        assert!(buffer.take_zeros(RECORD_PAYLOAD_BYTES_MAX - 400).iter().all(|b| *b == 0));
        assert!(buffer.payload()[..100].iter().all(|b| *b == 7) && buffer.payload()[100..].iter().all(|b| *b == 0));
        buffer.clear();
        assert!(buffer.take_zeros(200).iter().all(|b| *b == 0), "the sevens are overwritten");
    }
}
