//! The faults, their places, and the cause that the watch must report for each. The faults of one round exist at the same time; no
//! direction of a path has two of them.

use std::time::Duration;

use model::v1::watch::{AlarmKind, CauseKind};

/// How a fault is put in and removed.
#[derive(Clone, Copy, Debug)]
pub enum FaultMethod {
    /// By a setting of one or both directions of a path in the lab, or of one member of the path.
    Path {
        /// The path.
        path: &'static str,
        /// 0 for `ab`, 1 for `ba`; none for both.
        direction: Option<usize>,
        /// The index of the member, from 0.
        member: Option<usize>,
        /// The setting and its value with the fault, and without it.
        words: [(&'static str, &'static str); 2],
    },
    /// By a setting of a site's network.
    Sysctl {
        /// The site.
        site: &'static str,
        /// The setting, its value with the fault, its value without it.
        setting: [&'static str; 3],
    },
    /// By setting the clock of the reflector `g` forward by milliseconds.
    Clock(i64),
}

/// A fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name in the table.
    pub name: &'static str,
    /// How it is put in and removed.
    pub method: FaultMethod,
    /// The cause that the watch must report.
    pub cause: CauseKind,
    /// The kinds of alarms that report it.
    pub kinds: &'static [AlarmKind],
    /// The place: a segment, or a host.
    pub segment: &'static str,
}

/// Faults that exist at the same time, and the time in which the watch must find them.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The faults.
    pub faults: &'static [Fault],
    /// The longest time to find them.
    pub time_limit: Duration,
}

const LOSS: &[AlarmKind] = &[AlarmKind::Loss];
const THROUGHPUT: &[AlarmKind] = &[AlarmKind::Throughput];

/// A fault by a setting of one direction of a path.
const fn word(
    path: &'static str,
    direction: usize,
    with: (&'static str, &'static str),
    without: &'static str,
) -> FaultMethod {
    FaultMethod::Path { path, direction: Some(direction), member: None, words: [with, (with.0, without)] }
}

/// A fault that loses packets in one direction of a path.
const fn loss(
    name: &'static str,
    path: &'static str,
    direction: usize,
    share: &'static str,
    segment: &'static str,
) -> Fault {
    let method = word(path, direction, ("loss", share), "none");
    Fault { name, method, cause: CauseKind::RandomLoss, kinds: LOSS, segment }
}

/// A fault that lowers the throughput of one direction of a path.
const fn squeeze(
    name: &'static str,
    path: &'static str,
    direction: usize,
    with: (&'static str, &'static str),
    without: &'static str,
    cause: CauseKind,
    segment: &'static str,
) -> Fault {
    Fault { name, method: word(path, direction, with, without), cause, kinds: THROUGHPUT, segment }
}

const fn minutes(faults: &'static [Fault], minutes: u64) -> Round {
    Round { faults, time_limit: Duration::from_secs(minutes * 60) }
}

/// All rounds; the weakest faults come last, because their alarms take longest to end.
pub const ROUNDS: [Round; 11] = [
    minutes(
        &[
            loss("0.3 % lost out of a", "a-west", 0, "0.3%", "a out"),
            loss("0.1 % lost out of e", "e-east", 0, "0.1%", "e out"),
        ],
        4,
    ),
    minutes(
        &[
            Fault {
                name: "large packets vanish into d",
                method: word("d-east", 1, ("mtu_black_hole", "1500"), "none"),
                cause: CauseKind::MtuHole,
                kinds: &[AlarmKind::Mtu],
                segment: "d in",
            },
            Fault {
                name: "the clock of g is set by 20 ms",
                method: FaultMethod::Clock(20),
                cause: CauseKind::ClockStep,
                kinds: &[AlarmKind::Clock],
                segment: "g",
            },
        ],
        4,
    ),
    minutes(
        &[Fault {
            name: "packets take the path over the south",
            method: FaultMethod::Path {
                path: "west-east",
                direction: Some(0),
                member: None,
                words: [("withdrawn", "true"), ("withdrawn", "false")],
            },
            cause: CauseKind::RouteChange,
            kinds: &[AlarmKind::Route, AlarmKind::Delay],
            segment: "core",
        }],
        4,
    ),
    minutes(
        &[
            squeeze(
                "a queue of 32 KiB out of a",
                "a-west",
                0,
                ("queue", "32KiB"),
                "100ms",
                CauseKind::ShallowQueue,
                "a out",
            ),
            squeeze(
                "a policer of 60 Mbit/s out of d",
                "d-east",
                0,
                ("policer", "60Mbit/s"),
                "none",
                CauseKind::Policer,
                "d out",
            ),
        ],
        8,
    ),
    minutes(
        &[
            squeeze(
                "a policer of 40 Mbit/s into b",
                "b-west",
                1,
                ("policer", "40Mbit/s"),
                "none",
                CauseKind::Policer,
                "b in",
            ),
            // A queue towards a site would stay empty: the access path of the sender has the same rate, and spaces out its packets.
            squeeze(
                "a queue of 32 KiB out of b",
                "b-west",
                0,
                ("queue", "32KiB"),
                "100ms",
                CauseKind::ShallowQueue,
                "b out",
            ),
        ],
        8,
    ),
    minutes(
        &[
            Fault {
                name: "c receives with windows of 64 KiB",
                method: FaultMethod::Sysctl {
                    site: "c",
                    setting: ["net.ipv4.tcp_rmem", "4096 65536 65536", "4096 131072 1073741824"],
                },
                cause: CauseKind::SlowReceiver,
                kinds: THROUGHPUT,
                segment: "c in",
            },
            squeeze(
                "half of the rate into e",
                "e-east",
                1,
                ("rate", "50Mbit/s"),
                "100Mbit/s",
                CauseKind::NarrowLink,
                "e in",
            ),
        ],
        8,
    ),
    minutes(
        &[
            Fault {
                name: "f sends with buffers of 64 KiB",
                method: FaultMethod::Sysctl {
                    site: "f",
                    setting: ["net.ipv4.tcp_wmem", "4096 65536 65536", "4096 65536 1073741824"],
                },
                cause: CauseKind::SlowSender,
                kinds: THROUGHPUT,
                segment: "f out",
            },
            Fault {
                name: "others take 98 Mbit/s of 100 out of c",
                method: word("c-west", 0, ("cross_traffic", "98Mbit/s"), "none"),
                cause: CauseKind::Congestion,
                kinds: &[AlarmKind::Throughput, AlarmKind::Queue, AlarmKind::Loss],
                segment: "c out",
            },
        ],
        8,
    ),
    minutes(
        &[
            Fault {
                name: "one of four members of the core loses 2 % forward",
                method: FaultMethod::Path {
                    path: "west-east",
                    direction: Some(0),
                    member: Some(1),
                    words: [("loss", "2%"), ("loss", "none")],
                },
                cause: CauseKind::LossyMember,
                kinds: LOSS,
                segment: "core",
            },
            loss("0.05 % lost on the core in reverse", "west-east", 1, "0.05%", "core (back)"),
        ],
        6,
    ),
    minutes(
        &[
            loss("0.05 % lost into d", "d-east", 1, "0.05%", "d in"),
            loss("0.02 % lost into b", "b-west", 1, "0.02%", "b in"),
        ],
        8,
    ),
    minutes(&[loss("0.1 % lost into c, in bursts", "c-west", 1, "{ burst = [0.0003, 0.3] }", "c in")], 6),
    minutes(
        &[
            loss("0.01 % lost out of b", "b-west", 0, "0.01%", "b out"),
            loss("0.005 % lost out of f", "f-east", 0, "0.005%", "f out"),
        ],
        24,
    ),
];
