//! Connections of a test, with the settings that a socket must have before it is connected.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use model::v1::probe::tcp::Order;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{Error, Result};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects a stream of a test. The segment size and the buffers are set before it is connected, as the first packets carry the
/// segment size and the window scale, which never change later (RFC 7323).
///
/// # Errors
/// [`Error::Host`]: the kernel makes no socket or refuses a setting. [`Error::Connect`]: no connection within 10 s.
pub fn dial(to: SocketAddr, order: &Order) -> Result<TcpStream> {
    let host = |doing| move |source| Error::Host { doing, source };
    let socket =
        Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP)).map_err(host("make a socket"))?;
    if order.mss_bytes > 0 {
        socket.set_tcp_mss(order.mss_bytes).map_err(host("set the segment size (--mss)"))?;
    }
    if order.window_bytes > 0 {
        let bytes = usize::try_from(order.window_bytes).unwrap_or(usize::MAX);
        let set = socket.set_recv_buffer_size(bytes).and_then(|()| socket.set_send_buffer_size(bytes));
        set.map_err(host("set the buffers (--window)"))?;
    }
    socket
        .connect_timeout(&to.into(), CONNECT_TIMEOUT)
        .map_err(|source| Error::Connect { to: to.to_string(), source })?;
    Ok(socket.into())
}
