//! Cells of the validation: one scenario for the lab and for the simulator.
//!
//! Does not know: how either runs it.

use std::fmt::Write as _;

/// A copy that runs in a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellWork {
    /// The site that sends.
    pub from: &'static str,
    /// The site that receives.
    pub to: &'static str,
    /// Files, and the bytes of each.
    pub files: (u64, u64),
    /// Streams, where the work states them.
    pub streams: Option<u32>,
}

/// A cell: a network, and what is copied in it at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct LabCell {
    /// What it varies.
    pub name: String,
    /// Sites, paths and events, in the words of a scenario.
    pub network: String,
    /// The copies.
    pub work: Vec<CellWork>,
    /// The congestion control of all streams.
    pub congestion: &'static str,
}

impl LabCell {
    /// The scenario of the cell.
    pub fn scenario(&self) -> String {
        let mut text = self.network.clone();
        for (number, work) in self.work.iter().enumerate() {
            let (files, bytes) = work.files;
            let _ = write!(
                text,
                "[work.w{number}]\nfrom = \"{}\"\nto = \"{}\"\nbytes = \"{}B\"\nfile = \"{bytes}B\"\n",
                work.from,
                work.to,
                files * bytes
            );
            if let Some(streams) = work.streams {
                let _ = writeln!(text, "streams = {streams}");
            }
        }
        let congestion = self.congestion;
        text + &format!(
            "[simulate]\nduration = \"10m\"\nstep = \"0s\"\nscheduler = \"none\"\ncongestion = \"{congestion}\"\nreroute = \"0s\"\n"
        )
    }
}

const RTTS_MS: [u32; 3] = [10, 100, 303];
/// 800 MB: 13 s at 500 Mbit/s.
const LARGE: (u64, u64) = (8, 100_000_000);

/// All cells.
pub fn all() -> Vec<LabCell> {
    let mut cells = Vec::new();
    for rtt_ms in RTTS_MS {
        cells.push(pair(&format!("clean, {rtt_ms} ms"), rtt_ms, 500, "", LARGE));
        cells.push(pair(&format!("0.01 % loss, {rtt_ms} ms"), rtt_ms, 500, "loss = \"0.01%\"\n", LARGE));
        cells.push(cubic_under_loss(rtt_ms));
        cells.push(two_copies(rtt_ms));
        cells.push(pair(&format!("4,000 × 100 kB, {rtt_ms} ms"), rtt_ms, 300, "", (4_000, 100_000)));
        let outage = "[[event]]\nat = \"6s\"\npath = \"a-b\"\nset = { down = true }\nfor = \"3s\"\n";
        cells.push(with_event(&format!("3 s of outage, {rtt_ms} ms"), rtt_ms, outage));
    }
    let slower = "[[event]]\nat = \"6s\"\npath = \"a-b\"\nset = { rate = \"200Mbit/s\" }\n";
    cells.push(with_event("the rate falls to 200 Mbit/s, 20 ms", 20, slower));
    cells.push(pair("a building, 0.2 ms, 1 Gbit/s", 0, 1000, "", (16, 100_000_000)));
    cells.push(pair("100 Mbit/s, 50 ms", 50, 100, "", (2, 100_000_000)));
    cells.push(shared_uplink());
    cells.push(chain());
    cells.push(pair("one file of 800 MB, 150 ms", 150, 500, "", (1, 800_000_000)));
    cells
}

/// A cell drawn at random, in the search for what breaks the model.
pub fn drawn(seed: u64, number: u64) -> LabCell {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let rtt_ms = logarithmic(&mut random, 1.0, 300.0) as u32;
    let mbit_s = logarithmic(&mut random, 20.0, 500.0) as u32;
    // About ten seconds at the full rate, in few or many files.
    let bytes = f64::from(mbit_s) * 1e6 / 8.0 * 10.0;
    let files = logarithmic(&mut random, 1.0, 3_000.0) as u64;
    let loss_percent = if random.bool() { logarithmic(&mut random, 0.001, 1.0) } else { 0.0 };
    let is_burst = loss_percent > 0.0 && random.u8(..3) == 0;
    let loss = match (loss_percent > 0.0, is_burst) {
        (false, _) => String::new(),
        (true, false) => format!("loss = \"{loss_percent:.4}%\"\n"),
        // Bursts of ten packets.
        (true, true) => format!("loss = {{ burst = [{:.8}, 0.1] }}\n", loss_percent / 1e3),
    };
    let congestion = *random.choice(&["bbr", "cubic"]).unwrap_or(&"bbr");
    let streams = random.bool().then(|| random.u32(1..=16));
    let copies = random.usize(1..=3);
    let cut_s = (random.u8(..4) == 0).then(|| random.u32(1..=4));
    let each = (files.div_ceil(copies as u64), (bytes / files as f64).max(1_000.0) as u64);
    let work = vec![CellWork { streams, ..copy("a", "b", each) }; copies];
    let name = format!(
        "draw {number}: {rtt_ms} ms, {mbit_s} Mbit/s, {copies} × {} files of {} kB, {congestion}{}{}{}",
        each.0,
        each.1 / 1000,
        streams.map_or(String::new(), |streams| format!(", {streams} streams")),
        if loss_percent > 0.0 {
            format!(", {loss_percent:.3} % loss{}", if is_burst { " in bursts" } else { "" })
        } else {
            String::new()
        },
        cut_s.map_or(String::new(), |cut_s| format!(", {cut_s} s of outage")),
    );
    let event = cut_s.map_or(String::new(), |cut_s| {
        format!("[[event]]\nat = \"4s\"\npath = \"a-b\"\nset = {{ down = true }}\nfor = \"{cut_s}s\"\n")
    });
    LabCell { name, network: two_sites(rtt_ms, mbit_s, &loss) + &event, work, congestion }
}

/// A number whose logarithm is evenly distributed.
fn logarithmic(random: &mut fastrand::Rng, least: f64, most: f64) -> f64 {
    least * (most / least).powf(random.f64())
}

fn copy(from: &'static str, to: &'static str, files: (u64, u64)) -> CellWork {
    CellWork { from, to, files, streams: None }
}

fn two_sites(rtt_ms: u32, mbit_s: u32, words: &str) -> String {
    let rtt = if rtt_ms == 0 { "0.2ms".to_owned() } else { format!("{rtt_ms}ms") };
    format!(
        "[site.a]\nmtu = 1500\n[site.b]\nmtu = 1500\n[path.a-b]\nrtt = \"{rtt}\"\nrate = \"{mbit_s}Mbit/s\"\n{words}"
    )
}

fn pair(name: &str, rtt_ms: u32, mbit_s: u32, words: &str, files: (u64, u64)) -> LabCell {
    let work = vec![copy("a", "b", files)];
    LabCell { name: name.to_owned(), network: two_sites(rtt_ms, mbit_s, words), work, congestion: "bbr" }
}

fn cubic_under_loss(rtt_ms: u32) -> LabCell {
    let mut cell =
        pair(&format!("CUBIC, 8 streams, 0.01 % loss, {rtt_ms} ms"), rtt_ms, 500, "loss = \"0.01%\"\n", LARGE);
    cell.work[0].streams = Some(8);
    if rtt_ms > 100 {
        cell.work[0].files = (2, 100_000_000);
    }
    cell.congestion = "cubic";
    cell
}

fn two_copies(rtt_ms: u32) -> LabCell {
    let mut cell = pair(&format!("two copies share a path, {rtt_ms} ms"), rtt_ms, 500, "", LARGE);
    cell.work = vec![copy("a", "b", (4, 100_000_000)), copy("a", "b", (4, 100_000_000))];
    cell
}

fn with_event(name: &str, rtt_ms: u32, event: &str) -> LabCell {
    let mut cell = pair(name, rtt_ms, 500, "", LARGE);
    cell.network += event;
    cell
}

/// Three sites behind one uplink, at different distances.
fn shared_uplink() -> LabCell {
    let network = "[site.a]\nmtu = 1500\nuplink = { rate = \"500Mbit/s\" }\n[site.b]\nmtu = 1500\n[site.c]\nmtu = 1500\n[site.d]\nmtu = 1500\n\
                   [path.a-b]\nrtt = \"10ms\"\n[path.a-c]\nrtt = \"50ms\"\n[path.a-d]\nrtt = \"150ms\"\n";
    let work = ["b", "c", "d"].map(|to| copy("a", to, (3, 100_000_000))).to_vec();
    LabCell { name: "three targets behind one uplink".into(), network: network.into(), work, congestion: "bbr" }
}

/// Two paths one behind the other, the second of which a shorter copy shares.
fn chain() -> LabCell {
    let network = "[site.a]\nmtu = 1500\n[site.b]\nmtu = 1500\n[site.c]\nmtu = 1500\n\
                   [path.a-b]\nrtt = \"20ms\"\nrate = \"500Mbit/s\"\n[path.b-c]\nrtt = \"20ms\"\nrate = \"300Mbit/s\"\n";
    let work = vec![copy("a", "c", (3, 100_000_000)), copy("b", "c", (3, 100_000_000))];
    LabCell { name: "two paths in a row, the second shared".into(), network: network.into(), work, congestion: "bbr" }
}

#[cfg(test)]
mod tests {
    use scenario::Scenario;

    use super::*;

    #[test]
    fn there_are_24_cells_and_each_is_a_scenario() {
        let all = all();
        assert_eq!(all.len(), 24);
        for cell in &all {
            let text = cell.scenario();
            assert!(Scenario::read(&text).and_then(Scenario::for_lab).is_ok(), "{text}");
        }
    }

    #[test]
    fn drawn_cells_are_scenarios_and_repeat_by_their_seed() {
        for number in 0..200 {
            let text = drawn(7, number).scenario();
            assert!(Scenario::read(&text).and_then(Scenario::for_lab).is_ok(), "{text}");
            assert_eq!(drawn(7, number), drawn(7, number));
        }
        assert_ne!(drawn(7, 0), drawn(8, 0));
    }
}
