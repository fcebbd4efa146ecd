//! The capacity of this machine over a delay: one TCP stream over the same path without a bottleneck or loss.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::error::Error;
use crate::lab::Lab;
use crate::scenario::{LinkSettings, PathDirection, Scenario};

/// The rate of one stream.
#[derive(Clone, Debug)]
pub struct Ceiling {
    /// The rate of its payload, over the last third of the time.
    pub rate_bit_s: f64,
    /// The RTT of the path.
    pub rtt: Duration,
    /// Why the lab was the limit, if it was: for a ceiling that is no error.
    pub limited: Option<String>,
}

/// The path with the longest RTT, alone, with only its delay.
fn bare(scenario: &Scenario) -> Option<Scenario> {
    let path =
        scenario.paths.iter().filter(|path| path.directions.iter().all(|path_direction| path_direction.via.is_empty()));
    let path = path.max_by_key(|path| path.rtt())?;
    let mut bare = Scenario { paths: vec![path.clone()], events: Vec::new(), ..scenario.clone() };
    for path_direction in &mut bare.paths[0].directions {
        let delay = path_direction.members[0].delay;
        *path_direction =
            PathDirection { members: vec![LinkSettings { delay, ..LinkSettings::default() }], via: Vec::new() };
    }
    for site in &mut bare.sites {
        (site.uplink, site.firewall, site.cpu_share) = (None, None, None);
    }
    Some(bare)
}

/// Measures the ceiling; none without a path.
///
/// # Errors
/// The lab cannot be brought up, or its stream fails.
pub fn measure(scenario: &Scenario, dir: &Path) -> Result<Option<Ceiling>, Error> {
    let Some(bare) = bare(scenario) else { return Ok(None) };
    let lab = Lab::up("ceiling", &bare, dir)?;
    let path = &bare.paths[0];
    let rtt = path.rtt();
    let [from, to] = path.ends.map(|end| &lab.sites()[end.site]);
    let interface = |end: usize| &bare.sites[path.ends[end].site].interfaces[path.ends[end].interface];
    let address = |end: usize| {
        let interface = interface(end);
        interface.v4.map(|(address, _)| address.into()).or(interface.v6.map(|(address, _)| address.into()))
    };
    let (Some(source), Some(destination)) = (address(0), address(1)) else { return Ok(None) };
    let failed = |source| Error::site(&to.name, "carry a stream there", source);
    let listener = to.within(|| TcpListener::bind(SocketAddr::new(destination, 0)))?.map_err(failed)?;
    let target = listener.local_addr().map_err(failed)?;
    let stop = Arc::new(AtomicBool::new(false));
    let received = Arc::new(AtomicU64::new(0));
    let receiver = std::thread::spawn({
        let received = Arc::clone(&received);
        let stop = Arc::clone(&stop);
        move || receive_until(&listener, &received, &stop)
    });
    let connected = from.within(|| connect(SocketAddr::new(source, 0), target))?.map_err(failed)?;
    let sender = std::thread::spawn({
        let stop = Arc::clone(&stop);
        let stream = connected.try_clone().map_err(failed)?;
        move || send_until(stream, &stop)
    });
    // A single stream takes some 25 round trips to fill the longest path.
    let warm_up = Duration::from_secs(2) + rtt * 30;
    std::thread::sleep(warm_up);
    let before = received.load(Ordering::Relaxed);
    let started = Instant::now();
    std::thread::sleep(warm_up / 2);
    let rate = (received.load(Ordering::Relaxed) - before) as f64 * 8.0 / started.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let _ = connected.shutdown(Shutdown::Both);
    let _ = sender.join();
    let _ = receiver.join();
    let limited = lab.limited(&lab.reading()?);
    Ok(Some(Ceiling { rate_bit_s: rate, rtt, limited }))
}

fn connect(from: SocketAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    // From the address that the path belongs to, if a site has several.
    let socket = Socket::new(if to.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 }, Type::STREAM, None)?;
    socket.bind(&from.into())?;
    socket.connect(&to.into())?;
    Ok(TcpStream::from(socket))
}

fn send_until(mut stream: TcpStream, stop: &AtomicBool) {
    let block = vec![0; 1 << 20];
    while !stop.load(Ordering::Relaxed) && stream.write_all(&block).is_ok() {}
}

fn receive_until(listener: &TcpListener, received: &AtomicU64, stop: &AtomicBool) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut block = vec![0; 1 << 20];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut block) {
            Ok(0) | Err(_) => return,
            Ok(length) => drop(received.fetch_add(length as u64, Ordering::Relaxed)),
        }
    }
}
