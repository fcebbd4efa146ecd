//! Request and response: the round-trip time as a function of the answer's size. The slope is the cost of a byte on all copies and
//! links of the path, the intercept the cost of a datagram of any size.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use model::v1::probe::udp::{UdpAnswered, UdpLine, UdpRequestOrder, UdpRequests, UdpRoundTrips};

use super::RunProgress;
use super::clock::{HostClock, real};
use super::datagram::{
    DATAGRAM_BYTES_MAX, FlowId, HEAD_BYTES, Head, Kind, REQUEST_BYTES_MIN, answer_bytes, random_payload,
    set_answer_bytes,
};
use super::histogram::TimeHistogram;
use super::order::size;
use super::send::send_end;
use crate::{Error, Result, Stop};

/// Most sizes of one test.
const SIZES_MAX: usize = 1_000;
/// Most requests of one size.
const COUNT_MAX: u64 = 10_000_000;
/// The longest that an answer may take, seconds.
const TIMEOUT_S_MAX: f64 = 10.0;
/// After this many requests in a row without an answer the peer counts as gone.
const UNANSWERED_MAX: u32 = 10;
/// The longest wait for a datagram before an end checks whether to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Silence after which the answering end ends.
const SILENCE: Duration = Duration::from_secs(15);

fn check(order: &UdpRequestOrder) -> Result<Duration> {
    let refuse = |what: String| Err(Error::Order(what));
    size(order.request_bytes)?;
    order.answer_bytes.iter().try_for_each(|bytes| size(*bytes).map(drop))?;
    if (order.request_bytes as usize) < REQUEST_BYTES_MIN {
        return refuse(format!(
            "a request has {REQUEST_BYTES_MIN} to {DATAGRAM_BYTES_MAX} bytes, not {}",
            order.request_bytes
        ));
    }
    if order.answer_bytes.is_empty() || order.answer_bytes.len() > SIZES_MAX {
        return refuse(format!("answers have 1 to {SIZES_MAX} sizes, not {}", order.answer_bytes.len()));
    }
    if order.count == 0 || order.count > COUNT_MAX {
        return refuse(format!("each size takes 1 to {COUNT_MAX} requests, not {}", order.count));
    }
    if order.timeout_s > 0.0 && order.timeout_s <= TIMEOUT_S_MAX {
        Ok(Duration::from_secs_f64(order.timeout_s))
    } else {
        refuse(format!("an answer takes more than 0 and at most {TIMEOUT_S_MAX} s, not {} s", order.timeout_s))
    }
}

fn is_no_datagram(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Sends one request after the other and times each answer; then tells the other end that the test is over.
///
/// # Errors
/// [`Error::Order`]: the order is out of bounds. [`Error::Silent`]: ten requests in a row without an answer.
/// [`Error::Broken`], [`Error::Host`]: the socket fails.
pub fn measure(socket: &UdpSocket, order: &UdpRequestOrder, flow: FlowId, stop: &Stop) -> Result<UdpRequests> {
    let timeout = check(order)?;
    let mut requester = Requester::new(socket, order, flow, timeout)?;
    let mut result = UdpRequests::default();
    let mut points = Vec::new();
    for bytes in &order.answer_bytes {
        let series = requester.series(*bytes, order.count, stop)?;
        if series.trips.answered > 0 {
            points.push((f64::from(*bytes), series.least, series.mean));
        }
        result.sizes.push(series.trips);
        if stop.is_stopped() {
            result.interrupted = true;
            break;
        }
    }
    send_end(socket, flow, requester.number, &mut HostClock::default());
    result.line_of_min = line(points.iter().map(|(bytes, least, _)| (*bytes, *least)));
    result.line_of_mean = line(points.iter().map(|(bytes, _, mean)| (*bytes, *mean)));
    Ok(result)
}

/// The round trips of one answer size; their least and mean in seconds.
struct Series {
    trips: UdpRoundTrips,
    least: f64,
    mean: f64,
}

/// The end that sends requests.
struct Requester<'a> {
    socket: &'a UdpSocket,
    peer: String,
    flow: FlowId,
    timeout: Duration,
    request: Vec<u8>,
    buffer: Vec<u8>,
    /// Number of the next request; numbers go on from size to size.
    number: u64,
}

impl Requester<'_> {
    fn new<'a>(
        socket: &'a UdpSocket,
        order: &UdpRequestOrder,
        flow: FlowId,
        timeout: Duration,
    ) -> Result<Requester<'a>> {
        let host = |doing| move |source| Error::Host { doing, source };
        let peer = socket.peer_addr().map_err(host("send requests over a socket without a peer"))?.to_string();
        socket.set_read_timeout(Some(timeout.min(CHECK_INTERVAL))).map_err(host("set a socket's options"))?;
        let request = random_payload(order.request_bytes as usize);
        Ok(Requester { socket, peer, flow, timeout, request, buffer: vec![0; DATAGRAM_BYTES_MAX], number: 0 })
    }

    fn series(&mut self, answer_bytes: u32, count: u64, stop: &Stop) -> Result<Series> {
        set_answer_bytes(&mut self.request, answer_bytes);
        let mut trips = UdpRoundTrips { answer_bytes, ..UdpRoundTrips::default() };
        let mut round_trips = TimeHistogram::default();
        let mut least = Duration::MAX;
        let mut sum = Duration::ZERO;
        let mut unanswered = 0;
        while trips.asked < count && !stop.is_stopped() {
            trips.asked += 1;
            match self.round_trip(answer_bytes, &mut trips.late, stop)? {
                Some(took) => {
                    trips.answered += 1;
                    unanswered = 0;
                    least = least.min(took);
                    sum += took;
                    round_trips.record(took.as_nanos() as u64);
                }
                None if unanswered + 1 == UNANSWERED_MAX => {
                    let seconds = (self.timeout * UNANSWERED_MAX).as_secs();
                    return Err(Error::Silent { peer: self.peer.clone(), seconds });
                }
                None => unanswered += 1,
            }
        }
        trips.round_trip = round_trips.spread().unwrap_or_default();
        let mean = sum.as_secs_f64() / trips.answered.max(1) as f64;
        Ok(Series { trips, least: least.as_secs_f64(), mean })
    }

    /// The round trip of one request; none if its answer did not come in time.
    fn round_trip(&mut self, answer_bytes: u32, late: &mut u64, stop: &Stop) -> Result<Option<Duration>> {
        let number = self.number;
        self.number += 1;
        Head { flow: self.flow, kind: Kind::Request, number, sent_ns: real() }.write(&mut self.request);
        let requested_at = Instant::now();
        match self.socket.send(&self.request) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused || is_no_datagram(&error) => {}
            Err(source) => return Err(Error::Broken { peer: self.peer.clone(), source }),
        }
        while requested_at.elapsed() < self.timeout && !stop.is_stopped() {
            let datagram = match self.socket.recv(&mut self.buffer) {
                Ok(bytes) => &self.buffer[..bytes],
                Err(error) if is_no_datagram(&error) => continue,
                // The peer's port is closed. The pause keeps this loop from spinning until the timeout.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    std::thread::sleep(self.timeout.saturating_sub(requested_at.elapsed()).min(CHECK_INTERVAL));
                    continue;
                }
                Err(source) => return Err(Error::Broken { peer: self.peer.clone(), source }),
            };
            let took = requested_at.elapsed();
            match Head::read(datagram).filter(|head| head.flow == self.flow && head.kind == Kind::Answer) {
                Some(head)
                    if head.number == number && datagram.len() == answer_bytes as usize && took < self.timeout =>
                {
                    return Ok(Some(took));
                }
                Some(_) => *late += 1,
                None => {}
            }
        }
        Ok(None)
    }
}

/// The line of least squares; none through fewer than two different sizes.
fn line(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<UdpLine> {
    let count = points.clone().count() as f64;
    let (x, y) = points.clone().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (mut xx, mut xy) = (0.0, 0.0);
    for point in points {
        xx += (point.0 - x) * (point.0 - x);
        xy += (point.0 - x) * (point.1 - y);
    }
    (xx > 0.0).then(|| UdpLine { intercept_s: y - x * xy / xx, slope_s_per_byte: xy / xx })
}

/// Most bytes of answers per second, as a small request may have a large answer.
const ANSWERS_BYTES_S: f64 = 125e6;

/// Answers requests with the size that each asks for, at most `answer_bytes_max`. Ends with the requester's last datagram, at a
/// stop, or after 15 s without a request.
///
/// # Errors
/// [`Error::Host`]: the socket fails.
pub fn answer(
    socket: &UdpSocket,
    flow: FlowId,
    answer_bytes_max: u32,
    watch: &RunProgress,
    stop: &Stop,
) -> Result<UdpAnswered> {
    let host = |doing| move |source| Error::Host { doing, source };
    socket.set_read_timeout(Some(CHECK_INTERVAL)).map_err(host("set a socket's options"))?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut reply = random_payload(DATAGRAM_BYTES_MAX);
    let largest = (answer_bytes_max as usize).min(DATAGRAM_BYTES_MAX);
    let mut counts = UdpAnswered::default();
    let begun = Instant::now();
    let mut requested_at = begun;
    let mut sent_bytes = 0.0;
    while !stop.is_stopped() && requested_at.elapsed() < SILENCE {
        let request = match socket.recv(&mut buffer) {
            Ok(bytes) => &buffer[..bytes],
            Err(error) if is_no_datagram(&error) || error.kind() == ErrorKind::ConnectionRefused => continue,
            Err(source) => return Err(Error::Host { doing: "receive requests", source }),
        };
        let Some(head) = Head::read(request).filter(|head| head.flow == flow) else {
            counts.foreign += 1;
            continue;
        };
        match (head.kind, answer_bytes(request).map(|bytes| bytes as usize)) {
            (Kind::End, _) => break,
            (Kind::Request, Some(bytes)) if (HEAD_BYTES..=largest).contains(&bytes) => {
                requested_at = Instant::now();
                // A requester that waits for each answer, as the near end does, never reaches this bound.
                if sent_bytes > ANSWERS_BYTES_S * begun.elapsed().as_secs_f64().max(1.0) {
                    counts.not_sent += 1;
                    continue;
                }
                sent_bytes += bytes as f64;
                Head { kind: Kind::Answer, sent_ns: real(), ..head }.write(&mut reply);
                match socket.send(&reply[..bytes]) {
                    Ok(_) => {
                        counts.answered += 1;
                        watch.set(counts.answered, counts.not_sent);
                    }
                    Err(_) => counts.not_sent += 1,
                }
            }
            (Kind::Request, Some(_)) => counts.too_large += 1,
            _ => counts.foreign += 1,
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_least_squares() {
        let through = line([(100.0, 12.0), (200.0, 22.0), (400.0, 42.0)].into_iter()).unwrap();
        assert!((through.intercept_s - 2.0).abs() < 1e-9 && (through.slope_s_per_byte - 0.1).abs() < 1e-12);
        // By hand: means 2 and 3; Sxy = 2, Sxx = 2.
        let beside = line([(1.0, 2.0), (2.0, 3.0), (3.0, 4.0), (2.0, 3.0)].into_iter()).unwrap();
        assert!((beside.intercept_s - 1.0).abs() < 1e-12 && (beside.slope_s_per_byte - 1.0).abs() < 1e-12);
        assert_eq!(line([(5.0, 1.0), (5.0, 2.0)].into_iter()), None);
        assert_eq!(line([].into_iter()), None);
    }

    #[test]
    fn an_order_out_of_bounds_is_refused_with_the_bounds() {
        let order = UdpRequestOrder { request_bytes: 64, answer_bytes: vec![64], count: 10, timeout_s: 1.0 };
        assert_eq!(check(&order).unwrap(), Duration::from_secs(1));
        let wrong = [
            (UdpRequestOrder { request_bytes: 44, ..order.clone() }, "45 to 65507"),
            (UdpRequestOrder { answer_bytes: vec![40], ..order.clone() }, "41 to 65507"),
            (UdpRequestOrder { answer_bytes: vec![], ..order.clone() }, "1 to 1000 sizes"),
            (UdpRequestOrder { answer_bytes: vec![64; 1_001], ..order.clone() }, "1 to 1000 sizes"),
            (UdpRequestOrder { count: 0, ..order.clone() }, "requests, not 0"),
            (UdpRequestOrder { timeout_s: f64::NAN, ..order }, "at most 10 s"),
        ];
        for (order, bounds) in wrong {
            let error = check(&order).unwrap_err();
            assert!(matches!(&error, Error::Order(what) if what.contains(bounds)), "{error} should say {bounds}");
        }
    }
}
