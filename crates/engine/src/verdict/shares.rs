//! Where the time of one end's threads went, as shares.

use model::account::{Account, Stage};

/// Shares of the time of one end's threads, those left out that had nothing to carry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shares {
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
    /// None where no time was spent. So much of it, `spare`, was of threads that carried nothing and did nothing but
    /// wait, there.
    pub fn of(account: &Account, spare: f64, waits: Stage) -> Option<Shares> {
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

    /// Whether they worked for longer than they waited for the other end, or for what lies between.
    pub fn is_busy(&self) -> bool {
        self.used() > self.waiting()
    }

    /// How much of it they waited for the other end, or for what lies between.
    pub fn waiting(&self) -> f64 {
        self.socket + self.idle
    }
}
