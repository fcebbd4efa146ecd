//! The kernel's facts about a TCP connection: `sys` reads them, `pilot` decides by them, reports show them.

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
    /// Zero-window and keep-alive probes that were not answered.
    pub unanswered: u8,
    /// Time since the peer's last acknowledgement, those of zero-window and keep-alive probes included.
    pub since_ack: Duration,
    /// Time since the peer last sent data.
    pub since_data: Duration,
    /// Bytes that wait in the socket, unsent.
    pub unsent_bytes: u32,
    /// Segments that the peer reports as received twice (DSACK): they were retransmitted without need.
    pub spurious: u32,
    /// The window that the peer advertised last, bytes; 0 where the kernel does not report it.
    pub send_window_bytes: u64,
    /// Path MTU, bytes.
    pub path_mtu_bytes: u32,
    /// The pacing rate set for the socket (`SO_MAX_PACING_RATE`), bytes per second; none where no limit is set.
    pub pacing_max_bytes_s: Option<u64>,
    /// Both ends scale their windows (RFC 7323). Without it a window ends at 64 KiB.
    pub window_scaling: bool,
    /// The last measure of the delivery rate was of a socket that had too little to send.
    pub app_limited: bool,
    /// The connection has ended, possibly by a reset or a time-out: data that is not acknowledged now never will be.
    pub closed: bool,
}

impl TcpInfo {
    /// Bytes that were written to the connection: those sent, each counted once, and those that wait in the socket. They come from
    /// one reading; `bytes_acked` and the length of the queue (`SIOCOUTQ`) would come from two. Kernels before 4.19 do not
    /// count the bytes that they send; for them the acknowledged bytes stand in.
    pub fn bytes_written(&self) -> u64 {
        let sent = self.bytes_sent.saturating_sub(self.bytes_retransmitted);
        (sent + u64::from(self.unsent_bytes)).max(self.bytes_acked)
    }

    /// The counters since an earlier reading of the same connection; values that are a state rather than a count stay as they are.
    pub fn since(&self, earlier: &TcpInfo) -> TcpInfo {
        TcpInfo {
            retransmits: self.retransmits.saturating_sub(earlier.retransmits),
            busy: self.busy.saturating_sub(earlier.busy),
            receive_window_limited: self.receive_window_limited.saturating_sub(earlier.receive_window_limited),
            send_buffer_limited: self.send_buffer_limited.saturating_sub(earlier.send_buffer_limited),
            bytes_acked: self.bytes_acked.saturating_sub(earlier.bytes_acked),
            bytes_received: self.bytes_received.saturating_sub(earlier.bytes_received),
            bytes_sent: self.bytes_sent.saturating_sub(earlier.bytes_sent),
            bytes_retransmitted: self.bytes_retransmitted.saturating_sub(earlier.bytes_retransmitted),
            delivered_segments: self.delivered_segments.wrapping_sub(earlier.delivered_segments),
            spurious: self.spurious.wrapping_sub(earlier.spurious),
            ..*self
        }
    }
}
