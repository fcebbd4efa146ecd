//! The time of an end's threads as shares, and the limit that the shares of both ends show, for a whole transfer or a moment.

use model::account::{Account, Stage};

use super::MOST;

/// Shares of the time of one end's threads, those left out that had nothing to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// With a processor, or waiting for one.
    pub cpu: f64,
    /// Waiting for files.
    pub storage: f64,
    /// Waiting for the socket.
    pub socket: f64,
    /// Waiting for a limit.
    pub pace: f64,
    /// Waiting for something to do.
    pub idle: f64,
    /// How much longer than its processor time did take what needs nothing but a processor: 1 for a processor of one's
    /// own.
    pub stretch: f64,
    /// How long a thread was there, the mean, seconds.
    pub seconds: f64,
}

impl Shares {
    /// Of an end that sends: who has nothing to carry waits for orders. None where no time was spent. So much of it,
    /// `spare`, was of threads that carried nothing.
    pub fn of_sender(account: &Account, spare: f64) -> Option<Shares> {
        Shares::of(account, spare, Stage::Idle)
    }

    /// Of an end that receives: who has nothing to carry waits for its socket.
    pub fn of_receiver(account: &Account, spare: f64) -> Option<Shares> {
        Shares::of(account, spare, Stage::Socket)
    }

    /// `waits` is where the spare threads did nothing but wait.
    fn of(account: &Account, spare: f64, waits: Stage) -> Option<Shares> {
        let (wall, cpu) =
            (|stage| account.spent.wall_in(stage).as_secs_f64(), |stage| account.spent.cpu_in(stage).as_secs_f64());
        let all = account.spent.total().as_secs_f64();
        if all <= 0.0 {
            return None;
        }
        // Checksums never wait for anything but a processor. A few milliseconds say nothing.
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

    /// How much of the time these threads were kept busy by their own host.
    pub fn used(&self) -> f64 {
        self.cpu + self.storage
    }

    /// Whether they waited for a limit for longer than for anything else.
    fn is_capped(&self) -> bool {
        self.pace > 0.0 && self.pace >= self.used() && self.pace >= self.socket && self.pace >= self.idle
    }

    /// Whether they worked for longer than they waited for the other end, or for what lies between.
    pub fn is_busy(&self) -> bool {
        self.used() > self.waiting()
    }

    /// How much of it they waited for the other end, or for what lies between.
    pub fn waiting(&self) -> f64 {
        self.socket + self.idle
    }
}

/// What holds a job back, as far as where its threads spend their time can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// A file or pipe at the sending end.
    Source,
    /// Processors there.
    SenderCpu,
    /// What lies between: both ends wait for their sockets.
    Network,
    /// Processors at the receiving end.
    ReceiverCpu,
    /// A file or pipe there.
    Target,
    /// A limit, or a pause.
    Cap,
    /// Senders have nothing that they could send: nobody asked for more.
    Orders,
}

impl Held {
    /// All of them, in the order in which a block meets them.
    pub const ALL: [Held; 7] =
        [Held::Source, Held::SenderCpu, Held::Network, Held::ReceiverCpu, Held::Target, Held::Cap, Held::Orders];
}

/// What the shares of both ends say, as far as both are known.
pub fn held(sender: Option<&Shares>, receiver: Option<&Shares>) -> Held {
    if sender.is_some_and(Shares::is_capped) {
        return Held::Cap;
    }
    let used = |end: Option<&Shares>| end.map_or(0.0, Shares::used);
    let (from, to) = (sender.filter(|s| s.is_busy()), receiver.filter(|r| r.is_busy()));
    // Who waits for the other works less: where both are busy, as within one machine, the busier one is the limit.
    match (from, to) {
        (_, Some(r)) if used(to) >= used(from) => {
            if r.storage < r.cpu {
                Held::ReceiverCpu
            } else {
                Held::Target
            }
        }
        (Some(s), _) => {
            if s.storage < s.cpu {
                Held::SenderCpu
            } else {
                Held::Source
            }
        }
        _ if sender.is_some_and(|s| s.idle > MOST) => Held::Orders,
        _ => Held::Network,
    }
}
