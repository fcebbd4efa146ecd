//! Questions that planning answers by simulating a scenario in two or more versions.
//!
//! Does not know: how the answers are shown.

use plan::{Outcome, simulate};
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
pub struct Question {
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
pub fn all() -> Vec<Question> {
    vec![push_order(), replicas(), selfish(), marks(), relays()]
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

fn push(order: &str, copies: u32) -> Outcome {
    run(&format!(
        "{TELESCOPES}[work.push]\nfrom = [\"low\", \"mid\"]\nto = \"centre\"\nbytes = \"2PB\"\nfile = \"10GB\"\norder = \"{order}\"\ncopies = {copies}\n"
    ))
}

fn push_order() -> Question {
    let version = |name, order| {
        let outcome = push(order, 1);
        let answer = format!(
            "peak into a centre {:.0} Gbit/s, the last of 2 PB after {:.1} h",
            peak_gbit_s(&outcome, "hub-europe ab"),
            last_h(&outcome)
        );
        Version { name, answer }
    };
    Question {
        text: "Do telescopes push to the centres in turn, or to all in parallel?",
        versions: vec![version("in turn", "in-turn"), version("in parallel", "parallel")],
    }
}

fn replicas() -> Question {
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
    Question {
        text: "One or two replicas, pushed by the telescopes?",
        versions: vec![version("one", 1), version("two", 2)],
    }
}

/// Ten sites share one link; one of them opens more streams than the others.
fn selfish() -> Question {
    let version = |name, scheduler: &str, streams: u32| {
        let mut text =
            "[site.source]\n[site.exchange]\n[path.source-exchange]\nrtt = \"50ms\"\nrate = \"100Gbit/s\"\n".to_owned();
        for site in 0..10 {
            text += &format!("[site.t{site}]\n[path.exchange-t{site}]\nrtt = \"10ms\"\nrate = \"100Gbit/s\"\n");
        }
        for site in 0..10 {
            let streams = if site == 0 { streams } else { 4 };
            text += &format!(
                "[work.w{site}]\nfrom = \"source\"\nto = \"t{site}\"\nbytes = \"10TB\"\nfile = \"10GB\"\nstreams = {streams}\nactivity = \"a{site}\"\n"
            );
        }
        text += &format!("[simulate]\nscheduler = \"{scheduler}\"\ncongestion = \"cubic\"\nstep = \"0s\"\n");
        let outcome = run(&text);
        let others = outcome.work[1..].iter().map(|work| work.last_s).fold(0.0, f64::max);
        let answer =
            format!("it is done after {:.0} s, the last of the others after {others:.0} s", outcome.work[0].last_s);
        Version { name, answer }
    };
    Question {
        text: "What does a site win by more streams, and who pays?",
        versions: vec![
            version("no scheduler, 4 streams as all others", "none", 4),
            version("no scheduler, 64 streams", "none", 64),
            version("the hub's scheduler, 64 streams", "hub", 64),
        ],
    }
}

fn marks() -> Question {
    let version = |name, mark: &str| {
        let text = format!(
            "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"100ms\"\nrate = \"100Gbit/s\"\nmark = \"{mark}\"\n\
             [work.campaign]\nfrom = \"a\"\nto = \"b\"\nbytes = \"3PB\"\nfile = \"10GB\"\n[simulate]\nduration = \"20d\"\n"
        );
        let outcome = run(&text);
        Version { name, answer: format!("3 PB take {:.1} days", last_h(&outcome) / 24.0) }
    };
    Question {
        text: "What does a lower high-water mark cost a campaign?",
        versions: vec![version("100 %", "100%"), version("80 %", "80%"), version("50 %", "50%")],
    }
}

fn relays() -> Question {
    let version = |name, relays: &str| {
        let text = format!(
            "{TELESCOPES}[work.push]\nfrom = \"low\"\nto = [\"europe\", \"canada\", \"india\"]\nbytes = \"1PB\"\nfile = \"10GB\"\ncopies = 3\n{relays}"
        );
        let outcome = run(&text);
        let answer = format!("three copies of 1 PB are there after {:.1} days", last_h(&outcome) / 24.0);
        Version { name, answer }
    };
    Question {
        text: "Does the telescope send every copy, or do centres pass them on?",
        versions: vec![
            version("the telescope sends three", ""),
            version("Europe passes them on", "relays = { europe = [\"canada\", \"india\"] }\n"),
        ],
    }
}
