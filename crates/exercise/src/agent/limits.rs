//! The bounds of an agent. A controller that holds the agent's key cannot make it keep or run more than this.

use std::time::Duration;

/// Processes of clients at once that `--clients-max` permits. Each has a few pipes and a thread of the agent; a thousand clients of
/// any tool fill the processors of a host first.
pub const CLIENTS_MAX: u32 = 1024;
/// Processes of clients at once without `--clients-max`.
pub const CLIENTS_DEFAULT: u32 = 64;
/// Files of an order: five sets of ESnet's (1,875 files each).
pub const FILES_MAX: usize = 10_000;
/// Bytes of an order: 10,000 files with 400 bytes each.
pub const ORDER_BYTES_MAX: usize = 4 << 20;
/// The longest time until a run must be renewed, seconds: a controller that is gone stops everything within a minute.
pub const LIFETIME_S_MAX: u32 = 60;
/// Ended runs that are kept for their results.
pub const ENDED_RUNS_MAX: usize = 256;
/// Errors of a run that are kept.
pub const ERRORS_MAX: usize = 20;
/// Bytes of the end of a tool's stderr that are kept.
pub const STDERR_BYTES_MAX: usize = 500;
/// Bytes of a tool's help that are read for the options that it has; that of xrdcp has 5 kB.
pub const HELP_BYTES_MAX: usize = 64 << 10;
/// Bytes of a tool's stdout that are kept: the report of iperf3 over 128 streams is some 200 kB.
pub const STDOUT_BYTES_MAX: usize = 1 << 20;
/// How long a client may take to end after SIGTERM; then it is killed.
pub const GRACE: Duration = Duration::from_secs(2);
/// How long a tool may take to print its version. Tools in Python take a second.
pub const VERSION_WITHIN: Duration = Duration::from_secs(10);
/// Streams of a process that an order may ask for.
pub const STREAMS_MAX: u32 = 128;
/// Buffers of a socket that an order may ask for, bytes: 4 GiB, the largest TCP window is 1 GiB.
pub const WINDOW_BYTES_MAX: u64 = 512 << 20;
/// The least limit of a process, bit/s. Below it the tools' own steps (1 KiB/s, buffers of 128 KiB) exceed the limit.
pub const CLIENT_LIMIT_BIT_S_MIN: u64 = 1_000_000;
/// How long a test of iperf3 may last, seconds: a day, the bound of iperf3 itself.
pub const TEST_S_MAX: u32 = 86_400;
/// Characters of a bearer. Tokens of grids are 1 to 4 kB; the pipe to curl takes 64 KiB without a reader.
pub const BEARER_CHARS_MAX: usize = 16 << 10;
/// Characters of a URL or path of an order.
pub const ADDRESS_CHARS_MAX: usize = 2048;

const _: () = assert!(BEARER_CHARS_MAX < 48 << 10, "a bearer is written into a pipe that nobody reads yet");
const _: () = assert!(CLIENTS_DEFAULT <= CLIENTS_MAX);
