//! TCP over a disturbed path: bytes arrive unchanged, and the counts of both kernels are those of the lab.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use lab::{Lab, fixture};

use super::probe::{address_of, counter, counts, is_judged, settle};

const MEGABYTES: usize = 1_000_000;

/// The bytes of a stream: no two kilobytes of it are equal.
struct Pattern(u64);

impl Pattern {
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut word = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            self.0 += 1;
            chunk.copy_from_slice(&(word ^ word >> 27).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Sends bytes from a to b. Returns the number of wrong bits at the other end.
fn wrong_bits(lab: &Lab, v6: bool, length: usize) -> u64 {
    const PIECE: usize = 1 << 16;
    let at = address_of(lab, "b", 0, v6);
    let listen = || TcpListener::bind(SocketAddr::new(at, 0));
    let listener = lab.site("b").unwrap().within(listen).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut pattern = Pattern(0);
        let mut wanted = vec![0; PIECE];
        let mut found = vec![0; PIECE];
        let mut wrong = 0;
        let mut left = length;
        while left > 0 {
            let piece = left.min(PIECE);
            stream.read_exact(&mut found[..piece]).unwrap();
            pattern.fill(&mut wanted[..piece]);
            if wanted[..piece] != found[..piece] {
                let pairs = wanted[..piece].iter().zip(&found[..piece]);
                wrong += pairs.map(|(wanted, found)| u64::from((wanted ^ found).count_ones())).sum::<u64>();
            }
            left -= piece;
        }
        assert_eq!(stream.read(&mut found).unwrap(), 0, "and then its end");
        wrong
    });
    let connected = lab.site("a").unwrap().within(|| TcpStream::connect(to)).unwrap();
    let mut stream = connected.unwrap();
    let mut pattern = Pattern(0);
    let mut piece = vec![0; PIECE];
    let mut left = length;
    while left > 0 {
        let length = left.min(PIECE);
        pattern.fill(&mut piece[..length]);
        stream.write_all(&piece[..length]).unwrap();
        left -= length;
    }
    drop(stream);
    receiver.join().unwrap()
}

fn path(mtu: u16, words: &str) -> String {
    format!(
        "[site.a]\nmtu = {mtu}\n[site.b]\nmtu = {mtu}\n[path.a-b]\nrtt = \"2ms\"\nrate = \"2Gbit/s\"\nqueue = \"8MB\"\n{words}"
    )
}

/// Both IP versions, both directions, one after the other over one path.
fn bytes_arrive(test: &str, mtu: u16) {
    let disturbed = "loss = 0.0002\nduplicate = 0.0005\nreorder = 0.0005\nreorder_by = \"0.5ms\"\ncorrupt = 0.0003";
    let Some(lab) = fixture::up(test, &path(mtu, disturbed)) else { return };
    for v6 in [false, true] {
        assert_eq!(wrong_bits(&lab, v6, 50 * MEGABYTES), 0, "v6: {v6}");
    }
    settle(&lab);
    for (direction, receiver) in [(0, "b"), (1, "a")] {
        let errors = counter(&lab, receiver, "snmp", "Tcp:", "InCsumErrors");
        assert_eq!(counts(&lab, "a-b", direction).corrupted, errors, "damaged on the way to {receiver}");
    }
    let counts = counts(&lab, "a-b", 0);
    let happened = [counts.lost, counts.duplicated, counts.reordered, counts.corrupted];
    assert!(happened.iter().all(|count| *count > 0), "{happened:?}");
}

#[test]
fn bytes_arrive_despite_all_disturbances() {
    bytes_arrive("bytes_arrive_despite_all_disturbances", 1_500);
}

#[test]
fn bytes_arrive_in_large_packets() {
    bytes_arrive("bytes_arrive_in_large_packets", 9_000);
}

/// Each lost segment is sent again once; a segment that is sent again without a loss is the kernel's probe for the end of a flight, or is
/// reported back as a duplicate.
#[test]
fn each_lost_segment_is_sent_again() {
    let list: Vec<String> = (1..=100).map(|n| (n * 250).to_string()).collect();
    let loss = format!("ab = {{ loss = {{ list = [{}] }} }}", list.join(", "));
    let test = "each_lost_segment_is_sent_again";
    let Some(lab) = fixture::up(test, &path(1_500, &loss)) else { return };
    assert_eq!(wrong_bits(&lab, false, 50 * MEGABYTES), 0);
    settle(&lab);
    let lost = counts(&lab, "a-b", 0).lost;
    assert_eq!(lost, 100, "all of the list is data");
    let again = counter(&lab, "a", "snmp", "Tcp:", "RetransSegs");
    let extra = |column: &str| counter(&lab, "a", "netstat", "TcpExt:", column);
    let needless = extra("TCPLossProbes") + extra("TCPDSACKRecv");
    assert!(again >= lost, "{again} again, {lost} lost");
    // A sender that gets acknowledgements late takes more for lost.
    let few = again <= 2 * (lost + needless);
    assert!(few || !is_judged(test, &lab), "{again} again, {lost} lost, up to {needless} needless");
    assert_eq!(counts(&lab, "a-b", 1).lost, 0);
}

/// Only a comparison of contents can tell.
#[test]
fn silent_damage_passes_all_checksums() {
    let words = path(1_500, "ab = { corrupt_silent = 0.001 }");
    let Some(lab) = fixture::up("silent_damage_passes_all_checksums", &words) else { return };
    let wrong = [false, true].map(|v6| wrong_bits(&lab, v6, 20 * MEGABYTES)).iter().sum::<u64>();
    settle(&lab);
    let damaged = counts(&lab, "a-b", 0).corrupted_silently;
    assert!(damaged > 5, "{damaged}");
    for site in ["a", "b"] {
        let errors = ["InCsumErrors", "InErrs"].map(|column| counter(&lab, site, "snmp", "Tcp:", column));
        assert_eq!(errors, [0, 0], "{site}");
    }
    // A segment that was sent twice may have been damaged once, and the copy that is kept is either.
    let again = counter(&lab, "a", "snmp", "Tcp:", "RetransSegs");
    assert!((damaged.saturating_sub(again)..=damaged).contains(&wrong), "{wrong} of {damaged}, {again} sent again");
}
