//! The time of an end's threads as shares, and the limiting part that the shares of both ends show, for a transfer or a moment.

use model::account::{Account, Stage};

use super::MOST;

/// Shares of the time of one end's threads, without those that had nothing to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// On a processor, or waiting for one.
    pub cpu: f64,
    /// Waiting for files.
    pub storage: f64,
    /// Waiting for the socket.
    pub socket: f64,
    /// Waiting for a limit.
    pub pace: f64,
    /// Waiting for orders.
    pub idle: f64,
    /// The ratio of wall to processor time of work that needs nothing but a processor: 1 where each thread has a processor to
    /// itself.
    pub stretch: f64,
    /// The mean lifetime of a thread, seconds.
    pub seconds: f64,
}

impl Shares {
    /// The shares of an end that sends, whose idle threads wait for orders; none where no time was spent. `spare` is the part of the time
    /// that belongs to threads that carried nothing.
    pub fn of_sender(account: &Account, spare: f64) -> Option<Shares> {
        Shares::of(account, spare, Stage::Idle)
    }

    /// The shares of an end that receives, whose idle threads wait for their socket.
    pub fn of_receiver(account: &Account, spare: f64) -> Option<Shares> {
        Shares::of(account, spare, Stage::Socket)
    }

    /// `waits` is the stage in which the spare threads waited.
    fn of(account: &Account, spare: f64, waits: Stage) -> Option<Shares> {
        let wall = |stage| account.spent.wall_in(stage).as_secs_f64();
        let cpu = |stage| account.spent.cpu_in(stage).as_secs_f64();
        let all = account.spent.total().as_secs_f64();
        if all <= 0.0 {
            return None;
        }
        // Checksums wait for nothing but a processor. A few milliseconds are no evidence.
        let stretch = match cpu(Stage::Compute) {
            busy if busy > 0.005 => (wall(Stage::Compute) / busy).max(1.0),
            _ => 1.0,
        };
        let working = |stage| (cpu(stage) * stretch).min(wall(stage));
        let spare = (all * spare).min(wall(waits) - working(waits));
        let total = (all - spare).max(1e-9);
        let waiting = |stage| wall(stage) - working(stage) - if stage == waits { spare } else { 0.0 };
        Some(Shares {
            cpu: (wall(Stage::Compute) + working(Stage::Storage) + working(Stage::Socket)) / total,
            storage: waiting(Stage::Storage) / total,
            socket: waiting(Stage::Socket) / total,
            pace: wall(Stage::Pace) / total,
            idle: waiting(Stage::Idle) / total,
            stretch,
            seconds: all / f64::from(account.threads.max(1)),
        })
    }

    /// The share of the time in which their own host kept these threads busy.
    pub fn used(&self) -> f64 {
        self.cpu + self.storage
    }

    /// Whether they waited for a limit for longer than for anything else.
    fn is_capped(&self) -> bool {
        self.pace > 0.0 && self.pace >= self.used() && self.pace >= self.socket && self.pace >= self.idle
    }

    /// Whether they worked for longer than they waited for the other end, or for the network.
    pub fn is_busy(&self) -> bool {
        self.used() > self.waiting()
    }

    /// The share of the time in which they waited for the other end, or for the network.
    pub fn waiting(&self) -> f64 {
        self.socket + self.idle
    }
}

/// The part that limits a transfer, as far as the time of its threads shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitingPart {
    /// A file or pipe at the sending end.
    Source,
    /// Processors at the sending end.
    SenderCpu,
    /// The network: both ends wait for their sockets.
    Network,
    /// Processors at the receiving end.
    ReceiverCpu,
    /// A file or pipe at the receiving end.
    Target,
    /// A limit, or a pause.
    Cap,
    /// The senders have no data to send: the receiver has not requested more.
    Orders,
}

impl LimitingPart {
    /// All parts, in the order in which a block passes them.
    pub const ALL: [LimitingPart; 7] = [
        LimitingPart::Source,
        LimitingPart::SenderCpu,
        LimitingPart::Network,
        LimitingPart::ReceiverCpu,
        LimitingPart::Target,
        LimitingPart::Cap,
        LimitingPart::Orders,
    ];
}

/// The limiting part that the shares of both ends show, as far as both are known.
pub fn limiting_part(sender: Option<&Shares>, receiver: Option<&Shares>) -> LimitingPart {
    if sender.is_some_and(Shares::is_capped) {
        return LimitingPart::Cap;
    }
    let used = |end: Option<&Shares>| end.map_or(0.0, Shares::used);
    let (from, to) = (sender.filter(|s| s.is_busy()), receiver.filter(|r| r.is_busy()));
    // An end that waits for the other works less: where both are busy, as within one machine, the busier one is the limit.
    match (from, to) {
        (_, Some(r)) if used(to) >= used(from) => {
            if r.storage < r.cpu {
                LimitingPart::ReceiverCpu
            } else {
                LimitingPart::Target
            }
        }
        (Some(s), _) => {
            if s.storage < s.cpu {
                LimitingPart::SenderCpu
            } else {
                LimitingPart::Source
            }
        }
        _ if sender.is_some_and(|s| s.idle > MOST) => LimitingPart::Orders,
        _ => LimitingPart::Network,
    }
}
