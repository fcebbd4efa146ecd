//! Questions that planning answers by simulating a scenario in two or more versions.
//!
//! Does not know: how the answers are shown.

use plan::cache::{self, Requests};
use plan::lightpaths::{Cut, OpticalSettings, PathRequest, serve};
use plan::network::Network;
use plan::{Outcome, PathTerms, equilibrium_loss, simulate};
use scenario::Scenario;

/// One version of a question, with its answer.
#[derive(Debug)]
pub struct Version {
    /// The version.
    pub name: &'static str,
    /// What was found.
    pub answer: String,
}

/// A question with the versions that were compared.
#[derive(Debug)]
pub struct PlanQuestion {
    /// The question.
    pub text: &'static str,
    /// The versions.
    pub versions: Vec<Version>,
}

/// Five centres behind one ocean each, two telescopes.
const TELESCOPES: &str = r#"
    [site.low]
    nodes = 1
    node_rate = "100Gbit/s"
    [site.mid]
    nodes = 1
    node_rate = "100Gbit/s"
    [site.hub]
    [site.canada]
    group = "centre"
    [site.china]
    group = "centre"
    [site.europe]
    group = "centre"
    [site.india]
    group = "centre"
    [site.australia]
    group = "centre"
    [path.low-hub]
    rtt = "160ms"
    rate = "100Gbit/s"
    [path.mid-hub]
    rtt = "142ms"
    rate = "100Gbit/s"
    [path.hub-canada]
    rtt = "90ms"
    rate = "200Gbit/s"
    [path.hub-china]
    rtt = "160ms"
    rate = "200Gbit/s"
    [path.hub-europe]
    rtt = "8ms"
    rate = "200Gbit/s"
    [path.hub-india]
    rtt = "120ms"
    rate = "200Gbit/s"
    [path.hub-australia]
    rtt = "250ms"
    rate = "200Gbit/s"
    [simulate]
    duration = "10d"
"#;

/// All questions.
pub fn all() -> Vec<PlanQuestion> {
    vec![push_order(), replicas(), relays(), selfish(), marks(), caches(), restoration(), paths_on_demand()]
}

fn run(text: &str) -> Outcome {
    match Scenario::read(text) {
        Ok(scenario) => simulate(&scenario, None, &mut |_| true),
        Err(problem) => panic!("a scenario of this file makes no sense: {problem}"),
    }
}

fn peak_gbit_s(outcome: &Outcome, resource: &str) -> f64 {
    outcome.resources.iter().find(|known| known.name == resource).map_or(0.0, |known| known.peak_bit_s / 1e9)
}

fn last_h(outcome: &Outcome) -> f64 {
    outcome.work.iter().map(|work| work.last_s).fold(0.0, f64::max) / 3600.0
}

/// Both telescopes send to all five centres: for every replica of the day's 2 PB, 400 TB to each centre.
fn push(order: &str, replicas: u32) -> Outcome {
    let bytes = 400 * replicas;
    run(&format!(
        "{TELESCOPES}[work.push]\nfrom = [\"low\", \"mid\"]\nto = \"centre\"\nbytes = \"{bytes}TB\"\nfile = \"10GB\"\norder = \"{order}\"\ncopies = 5\n"
    ))
}

fn push_order() -> PlanQuestion {
    let version = |name, order| {
        let outcome = push(order, 1);
        let answer = format!(
            "peak into a centre {:.0} Gbit/s, the last of 2 PB after {:.1} h",
            peak_gbit_s(&outcome, "hub-europe ab"),
            last_h(&outcome)
        );
        Version { name, answer }
    };
    PlanQuestion {
        text: "Do telescopes push to the centres in turn, or to all in parallel?",
        versions: vec![version("in turn", "in-turn"), version("in parallel", "parallel")],
    }
}

fn replicas() -> PlanQuestion {
    let version = |name, copies| {
        let outcome = push("parallel", copies);
        let days = last_h(&outcome) / 24.0;
        let ocean =
            outcome.resources.iter().find(|known| known.name == "low-hub ab").map_or(0.0, |known| known.mean_bit_s);
        let answer = format!(
            "a day of 2 PB takes {days:.2} days over 100 Gbit/s to each telescope; an ocean carries {:.0} Gbit/s on average",
            ocean / 1e9
        );
        Version { name, answer }
    };
    PlanQuestion {
        text: "One or two replicas, pushed by the telescopes?",
        versions: vec![version("one", 1), version("two", 2)],
    }
}

/// Ten sites share one link of 100 Gbit/s over 60 ms; one of them opens more streams than the others.
fn selfish() -> PlanQuestion {
    let version = |name, scheduler: &str, streams: u32| {
        let mut text =
            "[site.source]\n[site.exchange]\n[path.source-exchange]\nrtt = \"50ms\"\nrate = \"100Gbit/s\"\n".to_owned();
        for site in 0..10 {
            let streams = if site == 0 { streams } else { OTHERS_STREAMS };
            text += &format!(
                "[site.t{site}]\n[path.exchange-t{site}]\nrtt = \"10ms\"\nrate = \"100Gbit/s\"\n\
                 [work.w{site}]\nfrom = \"source\"\nto = \"t{site}\"\nbytes = \"100TB\"\nfile = \"1GB\"\nstreams = {streams}\nactivity = \"a{site}\"\n"
            );
        }
        text +=
            &format!("[simulate]\nduration = \"{SELFISH_S}s\"\nscheduler = \"{scheduler}\"\ncongestion = \"cubic\"\n");
        let outcome = run(&text);
        let rate = |site: usize| outcome.work[site].bytes * 8.0 / SELFISH_S / 1e9;
        let others = (1..10).map(rate).sum::<f64>() / 9.0;
        let mut answer = format!("it gets {:.1} Gbit/s, each of the others {others:.1}", rate(0));
        if scheduler == "none" {
            let loss = equilibrium_loss(&[(SELFISH_TERMS, streams), (SELFISH_TERMS, 9 * OTHERS_STREAMS)], 12.5e9);
            answer += &format!("; all of them lose {:.5} % of their packets", loss * 100.0);
        }
        Version { name, answer }
    };
    PlanQuestion {
        text: "What does a site win by more streams, and who pays?",
        versions: vec![
            version("no scheduler, 4 streams as all others", "none", 4),
            version("no scheduler, 64 streams", "none", 64),
            version("the hub's scheduler, 64 streams", "hub", 64),
        ],
    }
}

/// Streams of each of the nine other sites.
const OTHERS_STREAMS: u32 = 4;
/// Simulated seconds.
const SELFISH_S: f64 = 600.0;
const SELFISH_TERMS: PathTerms = PathTerms {
    rtt_s: 0.06,
    loss: 0.0,
    mss_bytes: 8928.0,
    window_bytes: 512e6,
    congestion: scenario::Congestion::Cubic,
    streams: None,
};

fn marks() -> PlanQuestion {
    let version = |name, mark: &str| {
        let text = format!(
            "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"100ms\"\nrate = \"100Gbit/s\"\nmark = \"{mark}\"\n\
             [work.campaign]\nfrom = \"a\"\nto = \"b\"\nbytes = \"3PB\"\nfile = \"10GB\"\n[simulate]\nduration = \"20d\"\n"
        );
        let outcome = run(&text);
        Version { name, answer: format!("3 PB take {:.1} days", last_h(&outcome) / 24.0) }
    };
    PlanQuestion {
        text: "What does a lower high-water mark cost a campaign?",
        versions: vec![version("100 %", "100%"), version("80 %", "80%"), version("50 %", "50%")],
    }
}

fn relays() -> PlanQuestion {
    let version = |name, relays: &str| {
        let text = format!(
            "{TELESCOPES}[work.push]\nfrom = \"low\"\nto = [\"europe\", \"canada\", \"india\"]\nbytes = \"1PB\"\nfile = \"10GB\"\ncopies = 3\n{relays}"
        );
        let outcome = run(&text);
        let answer = format!("three copies of 1 PB are there after {:.1} days", last_h(&outcome) / 24.0);
        Version { name, answer }
    };
    PlanQuestion {
        text: "Does the telescope send every copy, or do centres pass them on?",
        versions: vec![
            version("the telescope sends three", ""),
            version("Europe passes them on", "relays = { europe = [\"canada\", \"india\"] }\n"),
        ],
    }
}

/// A cache of named data beside a site that reads 2 GB objects by Zipf's law.
fn caches() -> PlanQuestion {
    let requests = Requests { objects: 100_000, object_bytes: 2e9, exponent: 0.8, count: 400_000, seed: 7 };
    let version = |name, part: f64| {
        let bytes = part * requests.objects as f64 * requests.object_bytes;
        let outcome = cache::simulate(&requests, bytes);
        let answer = format!(
            "{:.0} % of the requests are answered (computed: {:.0} %); {:.0} of {:.0} TB cross the link",
            outcome.hit_ratio * 100.0,
            cache::hit_ratio(&requests, bytes) * 100.0,
            outcome.link_bytes / 1e12,
            outcome.asked_bytes / 1e12
        );
        Version { name, answer }
    };
    PlanQuestion {
        text: "What does a cache of named data spare a link? (200 TB of objects, popularity by Zipf's law with 0.8)",
        versions: vec![version("no cache", 0.0), version("2 TB", 0.01), version("20 TB", 0.1), version("100 TB", 0.5)],
    }
}

/// 10 TB move while the only short link is cut after 200 s.
fn restoration() -> PlanQuestion {
    let version = |name, restored: &str| {
        let text = format!(
            "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"20ms\"\nrate = \"100Gbit/s\"\n[path.a-c]\nrtt = \"60ms\"\nrate = \"100Gbit/s\"\n\
             [path.c-b]\nrtt = \"60ms\"\nrate = \"100Gbit/s\"\n[work.w]\nfrom = \"a\"\nto = \"b\"\nbytes = \"10TB\"\nfile = \"10GB\"\n\
             [[event]]\nat = \"200s\"\npath = \"a-b\"\nset = {{ down = true }}\n[simulate]\nstep = \"0s\"\nreroute = \"{restored}\"\n"
        );
        Version { name, answer: format!("10 TB take {:.0} s", run(&text).work[0].last_s) }
    };
    PlanQuestion {
        text: "What does a cut cost a transfer?",
        versions: vec![
            version("protected, 50 ms", "50ms"),
            version("restored by the optical layer, 5 s", "5s"),
            version("rerouted by hand, 10 min", "10m"),
        ],
    }
}

/// Agents ask for paths of one wavelength before transfers of 12.5 TB.
fn paths_on_demand() -> PlanQuestion {
    let text = "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"20ms\"\n[path.a-c]\nrtt = \"60ms\"\n[path.c-b]\nrtt = \"60ms\"\n";
    let network = match Scenario::read(text) {
        Ok(scenario) => Network::new(&scenario, None),
        Err(problem) => panic!("a scenario of this file makes no sense: {problem}"),
    };
    let requests: Vec<PathRequest> =
        (0..6).map(|number| PathRequest { at_s: f64::from(number) * 300.0, from: 0, to: 1, bytes: 12.5e12 }).collect();
    let version = |name, wavelengths: usize, cuts: &[Cut]| {
        let settings = OpticalSettings { wavelengths, setup_s: 60.0, restoration_s: 5.0, wavelength_bit_s: 100e9 };
        let outcomes = serve(&network, &settings, &requests, cuts);
        let ended = outcomes.iter().filter_map(|outcome| outcome.ended_s).fold(0.0, f64::max);
        let waited: f64 = outcomes
            .iter()
            .zip(&requests)
            .filter_map(|(outcome, request)| Some(outcome.began_s? - request.at_s))
            .fold(0.0, f64::max);
        Version {
            name,
            answer: format!("light after {waited:.0} s at the latest, the last transfer ends after {ended:.0} s"),
        }
    };
    PlanQuestion {
        text: "Six transfers of 12.5 TB, one every 5 min, over optical paths on demand",
        versions: vec![
            version("one wavelength", 1, &[]),
            version("two wavelengths", 2, &[]),
            version("two wavelengths, the short link cut after 800 s", 2, &[Cut { at_s: 800.0, path: 0 }]),
        ],
    }
}
