//! Throwaway measurement.
use std::net::UdpSocket;
use model::v1::probe::udp::{UdpOrder, UdpPace};
use probe::udp::{Flow, Receiver, Ending, Watch, point, send, datagram::Token, columns};
use probe::Stop;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let seconds: f64 = args.get(1).map_or(3.0, |s| s.parse().unwrap());
    let mut run = 0;
    let mut one = |bytes: u32, pace: UdpPace| {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        run += 1;
        let order = UdpOrder { bytes, pace, count: None, seconds: Some(seconds) };
        let flow = Flow { token: Token([1; 16]), run };
        let receiver = Receiver::prepare(&b, &order, flow).unwrap();
        let p = std::thread::scope(|s| {
            let r = s.spawn(|| receiver.run(&Ending::default(), &Watch::default(), &Stop::default()).unwrap());
            let sent = send(&a, &order, flow, &Watch::default(), &Stop::default()).unwrap();
            point(order, sent, r.join().unwrap())
        });
        match pace {
            UdpPace::Max => println!("max {bytes}: sent {:.1} Gbit/s received {:.1} Gbit/s ({:.2} Mpps) lost {:.2} % host {} net {} drops {:?} cars {} ended {}",
                p.sent.rate_bit_s as f64 / 1e9, p.received.rate_bit_s as f64 / 1e9, p.received.datagrams as f64 / p.received.seconds / 1e6,
                p.lost_share * 100.0, p.lost_in_host, p.lost_in_network, p.received.drops, p.sent.train_datagrams, p.received.ended),
            _ => {
                let s = p.sent.spacing.as_ref().unwrap();
                let i = p.received.inter_arrival.as_ref().unwrap();
                println!("{bytes} target {:.1} us: p50 {:.3} p95 {:.3} p99 {:.2} p99.9 {:.1} max {:.0} mean {:.3} | arrivals p50 {:.3} p99 {:.2} | lost {} host {} {:?}",
                    p.sent.spacing_target_s.unwrap() * 1e6, s.p50_s * 1e6, s.p95_s * 1e6, s.p99_s * 1e6, s.p999_s * 1e6, s.max_s * 1e6, s.mean_s * 1e6, i.p50_s * 1e6, i.p99_s * 1e6, p.lost, p.lost_in_host, p.host_limited);
                println!("{}", columns::row(&p));
            }
        }
    };
    for _ in 0..3 { one(8_972, UdpPace::Max); one(1_472, UdpPace::Max); }
    for us in [5.0, 10.0, 20.0, 50.0, 100.0] { one(1_472, UdpPace::Spacing { spacing_s: us / 1e6 }); }
}
