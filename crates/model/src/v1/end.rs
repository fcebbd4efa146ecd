//! One end of a job in public JSON: its host, and where the time of its threads went.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One end of a job, as far as it told.
///
/// The shares are of the time of the threads that carried data; together they are 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct End {
    /// It is the end that wrote the receipt.
    pub here: bool,
    /// It sent; the other one received.
    pub sends: bool,
    /// Threads that carried streams.
    pub threads: u32,
    /// Processors of the host.
    pub processors: u32,
    /// How busy all of them were during the job, with everybody's work, from 0 to 1.
    pub busy: f64,
    /// The largest buffer that the kernel gives a connection by itself to receive.
    pub receive_buffer_max_bytes: u64,
    /// The same to send.
    pub send_buffer_max_bytes: u64,
    /// The host scales TCP windows (RFC 7323).
    pub window_scaling: bool,
    /// Share of the time with a processor, or waiting for one.
    pub cpu: f64,
    /// Waiting for files.
    pub storage: f64,
    /// Waiting for the socket.
    pub socket: f64,
    /// Waiting for a limit.
    pub pace: f64,
    /// Waiting for something to do.
    pub idle: f64,
}
