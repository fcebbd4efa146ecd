//! The account of each end of a transfer, from which the other end judges what limits the transfer.

use std::time::Duration;

/// What a stream's thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading or writing files.
    Storage,
    /// Checksums and sealing: never waits for anything but a processor.
    Compute,
    /// Sending, or waiting for data from the socket.
    Socket,
    /// Waiting until a limit allows the next record.
    Pace,
    /// Waiting for something to do.
    Idle,
}

/// How many stages there are.
pub const STAGES: usize = 5;

/// Time spent in each stage, in the order of [`Stage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Wall time.
    pub wall: [Duration; STAGES],
    /// Processor time.
    pub cpu: [Duration; STAGES],
    /// Records sent or received.
    pub records: u64,
    /// The longest single time in each stage.
    pub longest: [Duration; STAGES],
}

impl StageTimes {
    /// Wall time in a stage.
    pub fn wall_in(&self, stage: Stage) -> Duration {
        self.wall[stage as usize]
    }

    /// Processor time in a stage.
    pub fn cpu_in(&self, stage: Stage) -> Duration {
        self.cpu[stage as usize]
    }

    /// All of the wall time.
    pub fn total(&self) -> Duration {
        self.wall.iter().sum()
    }

    /// Adds the times of another thread.
    pub fn add(&mut self, other: &StageTimes) {
        for stage in 0..STAGES {
            self.wall[stage] += other.wall[stage];
            self.cpu[stage] += other.cpu[stage];
            self.longest[stage] = self.longest[stage].max(other.longest[stage]);
        }
        self.records += other.records;
    }

    /// The difference to `before`, an earlier reading.
    pub fn since(&self, before: &StageTimes) -> StageTimes {
        let mut out = *self;
        for stage in 0..STAGES {
            out.wall[stage] = self.wall[stage].saturating_sub(before.wall[stage]);
            out.cpu[stage] = self.cpu[stage].saturating_sub(before.cpu[stage]);
        }
        out.records = self.records.saturating_sub(before.records);
        out
    }
}

/// How long a target kept a transfer waiting, for reasons that no thread's time shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetWaits {
    /// For space: the target was full.
    pub space: Duration,
    /// For another job that was writing the file.
    pub writer: Duration,
}

/// One end of a running job, from its start until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Threads that run streams.
    pub threads: u32,
    /// The time of all of them, by stage.
    pub spent: StageTimes,
    /// Processors of the host.
    pub processors: u32,
    /// How busy all processors were, with work of any process, in thousandths.
    pub busy_permille: u32,
    /// The largest receive buffer that the kernel gives a connection by itself, bytes.
    pub receive_buffer_max: u64,
    /// The largest send buffer that the kernel gives a connection by itself, bytes.
    pub send_buffer_max: u64,
    /// The host scales TCP windows.
    pub scales_windows: bool,
    /// Congestion control that this end wanted and the host does not allow; empty where there is none.
    pub missed: String,
    /// From a sender that accepts the streams: how many streams the job should have; 0 where it leaves that to the peer.
    pub streams: u32,
    /// From a sender: the payload rate of the path when it was full, bit/s; 0 where it never was.
    pub capacity_bit_s: u64,
    /// From a sender: bytes retransmitted while the path had no queue, in a billion bytes sent.
    pub clear_loss_ppb: u32,
    /// From a receiver: the rate at which it wants to receive at most, so that its jobs share a path evenly, bit/s; 0 for no bound.
    pub share_bit_s: u64,
}
