//! The JSON of one end of a transfer: its host, and where the time of its threads went.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One end of a transfer, as far as it has reported.
///
/// The shares are parts of the time of the threads that carried data. Their sum is 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct End {
    /// This end wrote the receipt.
    pub here: bool,
    /// This end sent the data; the other end received it.
    pub sends: bool,
    /// The number of threads that carried streams.
    pub threads: u32,
    /// The number of processors of the host.
    pub processors: u32,
    /// The use of all processors during the transfer, by all programs, from 0 to 1.
    pub busy: f64,
    /// The largest receive buffer that the kernel gives a connection automatically, bytes.
    pub receive_buffer_max_bytes: u64,
    /// The largest send buffer that the kernel gives a connection automatically, bytes.
    pub send_buffer_max_bytes: u64,
    /// The host scales TCP windows (RFC 7323).
    pub window_scaling: bool,
    /// The share of time on a processor, or waiting for one.
    pub cpu: f64,
    /// The share of time waiting for files.
    pub storage: f64,
    /// The share of time waiting for the socket.
    pub socket: f64,
    /// The share of time waiting because of a rate limit.
    pub pace: f64,
    /// The share of time waiting for work.
    pub idle: f64,
}
