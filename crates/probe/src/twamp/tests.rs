//! Both ends over loopback, and requests that are refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::v1::node::StreamTest;

use super::message::{self, Accept, Request};
use super::*;
use crate::Stop;

struct Counted<'a>(&'a AtomicUsize);

impl TestSession for Counted<'_> {}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Runs a server for one connection beside `test`; returns the senders whose packets it answers, and its result.
fn served(bounds: Bounds, test: impl FnOnce(SocketAddr)) -> (Vec<SocketAddr>, crate::Result<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let senders = Mutex::new(Vec::new());
    let stop = Stop::default();
    let result = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (control, _) = listener.accept().unwrap();
            serve(control, 4_242, bounds, &stop, &|from| {
                senders.lock().unwrap().push(from);
                OPEN.fetch_add(1, Ordering::SeqCst);
                Some(Box::new(Counted(&OPEN)))
            })
        });
        test(at);
        server.join().unwrap()
    });
    (senders.into_inner().unwrap(), result)
}

#[test]
fn a_session_begins_and_ends() {
    let mut port = 0;
    let (senders, result) = served(Bounds::default(), |at| {
        let session = begin(at, &StreamTest::default()).unwrap();
        assert_eq!(session.socket.peer_addr().unwrap().port(), 4_242);
        port = session.socket.local_addr().unwrap().port();
        assert_eq!(OPEN.load(Ordering::SeqCst), 1);
    });
    assert_eq!((senders, result.unwrap()), (vec![SocketAddr::from(([127, 0, 0, 1], port))], 1));
    assert_eq!(OPEN.load(Ordering::SeqCst), 0, "it ends with the connection");
}

/// Performs the set-up; returns the connection.
fn greeted(at: SocketAddr) -> TcpStream {
    let mut control = TcpStream::connect(at).unwrap();
    control.read_exact(&mut [0; message::GREETING]).unwrap();
    control.write_all(&message::set_up(message::UNAUTHENTICATED)).unwrap();
    control.read_exact(&mut [0; message::SERVER_START]).unwrap();
    control
}

fn request(control: &mut TcpStream, sender: (std::net::IpAddr, u16)) -> u8 {
    let request = Request { sender, receiver: sender, padding: 27, timeout: 1 << 32 };
    control.write_all(&request.write()).unwrap();
    let mut accept = [0; message::ACCEPT];
    control.read_exact(&mut accept).unwrap();
    accept[0]
}

#[test]
fn a_session_for_another_host_or_beyond_the_bound_is_refused() {
    let here = std::net::IpAddr::from([127, 0, 0, 1]);
    let (senders, _) = served(Bounds { sessions: 2, ..Bounds::default() }, |at| {
        let mut control = greeted(at);
        assert_eq!(request(&mut control, ([192, 0, 2, 1].into(), 5_000)), Accept::Failure as u8);
        assert_eq!(request(&mut control, (here, 0)), Accept::Failure as u8);
        assert_eq!(request(&mut control, (here, 5_000)), 0);
        assert_eq!(
            request(&mut control, ([0; 4].into(), 5_001)),
            0,
            "an unspecified address is that of the connection"
        );
        assert_eq!(request(&mut control, (here, 5_002)), Accept::TemporaryLimit as u8);
    });
    assert!(senders.is_empty(), "none was started");
}

#[test]
fn an_unknown_mode_or_command_is_refused() {
    let (_, result) = served(Bounds::default(), |at| {
        let mut control = TcpStream::connect(at).unwrap();
        control.read_exact(&mut [0; message::GREETING]).unwrap();
        control.write_all(&message::set_up(4)).unwrap();
        let mut start = [0; message::SERVER_START];
        control.read_exact(&mut start).unwrap();
        assert_eq!(start[15], Accept::NotSupported as u8);
    });
    assert!(result.unwrap_err().to_string().contains("mode"));
    let (_, result) = served(Bounds::default(), |at| {
        greeted(at).write_all(&message::short(77)).unwrap();
    });
    assert!(result.unwrap_err().to_string().contains("command"));
}

#[test]
fn a_request_has_the_octets_of_the_rfc() {
    let request = Request {
        sender: ("2001:db8::1".parse().unwrap(), 0x1234),
        receiver: ("2001:db8::2".parse().unwrap(), 0x5678),
        padding: 86,
        timeout: 3 << 32,
    };
    let octets = request.write();
    assert_eq!((octets[0], octets[1] & 15, &octets[12..16]), (5, 6, &[0x12, 0x34, 0x56, 0x78][..]));
    assert_eq!((octets[64..68].to_vec(), octets[76..84].to_vec()), (vec![0, 0, 0, 86], vec![0, 0, 0, 3, 0, 0, 0, 0]));
    assert_eq!(Request::read(&octets), Some(request));
    let mut other = octets;
    other[1] = 5;
    assert_eq!(Request::read(&other), None);
}
