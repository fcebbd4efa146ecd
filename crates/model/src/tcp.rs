//! What a kernel knows about a TCP connection, as a value: `sys` reads it, `pilot` decides by it, reports show it.

use std::time::Duration;

/// The kernel's view of one connection, in plain units (`TCP_INFO`, tcp(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Smallest round-trip time seen.
    pub min_rtt: Duration,
    /// Segments sent again, ever.
    pub retransmits: u64,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Segment size, bytes.
    pub mss_bytes: u32,
    /// What the path delivers, bytes per second.
    pub delivery_rate_bytes_s: u64,
    /// Time with data in flight or waiting.
    pub busy: Duration,
    /// Of that, time limited by the peer's receive window.
    pub receive_window_limited: Duration,
    /// Of that, time limited by our send buffer.
    pub send_buffer_limited: Duration,
    /// Bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Bytes received from the peer.
    pub bytes_received: u64,
    /// Payload bytes sent, those sent again included.
    pub bytes_sent: u64,
    /// Of those, bytes sent again.
    pub bytes_retransmitted: u64,
    /// Segments that the peer is known to have, in whatever order they came. Wraps.
    pub delivered_segments: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked_segments: u32,
    /// Probes of a shut window, or of the peer's life, that were not answered.
    pub unanswered: u8,
    /// Time since the peer last acknowledged anything, a probe of the window or of its life included.
    pub since_ack: Duration,
    /// Time since it last sent something.
    pub since_data: Duration,
    /// Bytes that wait in the socket, unsent.
    pub unsent_bytes: u32,
    /// Segments that came twice, as the peer says: they were sent again for nothing.
    pub spurious: u32,
    /// The window that the peer has offered last, bytes; 0 where the kernel does not say.
    pub send_window_bytes: u64,
    /// Path MTU, bytes.
    pub path_mtu_bytes: u32,
    /// What the socket may send at most, as it was told, bytes per second; none where it may send at will.
    pub pacing_max_bytes_s: Option<u64>,
    /// Both ends scale their windows (RFC 7323). Without it a window ends at 64 KiB.
    pub window_scaling: bool,
    /// The last measure of the delivery rate was of a socket that had too little to send.
    pub app_limited: bool,
    /// The connection is over, by a reset or a time-out as well: what was not acknowledged never will be.
    pub closed: bool,
}

impl TcpInfo {
    /// Bytes that were written to the connection: those sent, each once, and those that wait. All from one look, where
    /// `bytes_acked` and the length of the queue (`SIOCOUTQ`) would be from two. An old kernel (before 4.19) does not
    /// count what it sends.
    pub fn bytes_written(&self) -> u64 {
        let sent = self.bytes_sent.saturating_sub(self.bytes_retransmitted);
        (sent + u64::from(self.unsent_bytes)).max(self.bytes_acked)
    }

    /// What was counted since an earlier look at the same connection; what is a state rather than a count stays.
    pub fn since(&self, then: &TcpInfo) -> TcpInfo {
        TcpInfo {
            retransmits: self.retransmits.saturating_sub(then.retransmits),
            busy: self.busy.saturating_sub(then.busy),
            receive_window_limited: self.receive_window_limited.saturating_sub(then.receive_window_limited),
            send_buffer_limited: self.send_buffer_limited.saturating_sub(then.send_buffer_limited),
            bytes_acked: self.bytes_acked.saturating_sub(then.bytes_acked),
            bytes_received: self.bytes_received.saturating_sub(then.bytes_received),
            bytes_sent: self.bytes_sent.saturating_sub(then.bytes_sent),
            bytes_retransmitted: self.bytes_retransmitted.saturating_sub(then.bytes_retransmitted),
            delivered_segments: self.delivered_segments.wrapping_sub(then.delivered_segments),
            spurious: self.spurious.wrapping_sub(then.spurious),
            ..*self
        }
    }
}
