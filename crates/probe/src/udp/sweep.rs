//! A sweep: one run for each size with each spacing, which shows the plateau and the knee of a path (udpmon's throughput scan).

use std::net::UdpSocket;

use model::v1::probe::udp::{UdpOrder, UdpPace, UdpPoint, UdpReceived, UdpSweep};

use super::datagram::{FlowId, Token};
use super::order::Plan;
use super::{RunProgress, point, send};
use crate::{Error, Result, Stop};

/// Most runs of one sweep.
pub const RUNS_MAX: usize = 10_000;
/// The sizes that udpmon scans, bytes.
pub const UDPMON_SIZES_BYTES: [u32; 10] = [1_400, 1_472, 1_200, 1_000, 800, 600, 400, 200, 100, 50];
/// The spacings that udpmon scans with each: 0 to 40 µs.
pub const UDPMON_SPACINGS_US: std::ops::RangeInclusive<u32> = 0..=40;

/// One run of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepRun {
    /// Identifies the run's datagrams.
    pub flow: FlowId,
    /// The order of the run.
    pub order: UdpOrder,
}

/// The far end of a sweep, over the caller's connection to it.
pub trait FarEnd {
    /// Has the far end receive this run; returns when it is ready ([`super::Receiver::prepare`]).
    ///
    /// # Errors
    /// The far end does not answer, or cannot receive the run.
    fn start(&mut self, run: &SweepRun) -> Result<()>;
    /// The far end's result, after `sent` datagrams have left.
    ///
    /// # Errors
    /// The far end does not answer, or failed.
    fn result(&mut self, sent: u64) -> Result<UdpReceived>;
}

/// The runs of a sweep, numbered from `first_run` on.
///
/// # Errors
/// [`Error::Order`]: no runs, more than [`RUNS_MAX`], or one that is out of bounds.
pub fn runs(sweep: &UdpSweep, token: Token, first_run: u32) -> Result<Vec<SweepRun>> {
    let count = sweep.sizes_bytes.len().saturating_mul(sweep.spacings_s.len());
    if count == 0 || count > RUNS_MAX {
        return Err(Error::Order(format!("a sweep has 1 to {RUNS_MAX} runs, sizes times spacings, not {count}")));
    }
    let pairs =
        sweep.sizes_bytes.iter().flat_map(|bytes| sweep.spacings_s.iter().map(move |spacing| (*bytes, *spacing)));
    let numbered = pairs.zip(0u32..).map(|((bytes, spacing_s), n)| {
        let pace = UdpPace::Spacing { spacing_s };
        let order = UdpOrder { bytes, pace, count: sweep.count, seconds: sweep.seconds };
        Plan::of(&order)?;
        Ok(SweepRun { flow: FlowId { token, run: first_run.wrapping_add(n) }, order })
    });
    numbered.collect()
}

/// Sends the runs one after the other. `on_point` is called as soon as both ends have counted a run. A stop ends the sweep
/// with the run that it interrupts, for which `on_point` is called as well.
///
/// # Errors
/// Those of [`send`] and of the far end.
pub fn sweep(
    socket: &UdpSocket,
    runs: &[SweepRun],
    far: &mut impl FarEnd,
    watch: &RunProgress,
    stop: &Stop,
    mut on_point: impl FnMut(&SweepRun, &UdpPoint),
) -> Result<()> {
    for run in runs {
        if stop.is_stopped() {
            break;
        }
        far.start(run)?;
        let sent = send(socket, &run.order, run.flow, watch, stop)?;
        let received = far.result(sent.datagrams)?;
        on_point(run, &point(run.order, sent, received));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_runs_every_size_with_every_spacing() {
        let spacings_s = vec![0.0, 1e-6, 2e-6];
        let order = UdpSweep { sizes_bytes: vec![1_472, 50], spacings_s, count: Some(100), seconds: None };
        let token = Token([1; 16]);
        let all = runs(&order, token, u32::MAX).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!((all[0].flow.run, all[1].flow.run, all[5].flow.run), (u32::MAX, 0, 4));
        let fourth = UdpOrder { bytes: 50, pace: UdpPace::Spacing { spacing_s: 0.0 }, count: Some(100), seconds: None };
        assert_eq!(all[3].order, fourth);
        let refused = |order: UdpSweep| matches!(runs(&order, token, 0), Err(Error::Order(_)));
        assert!(refused(UdpSweep { sizes_bytes: vec![], ..order.clone() }));
        assert!(refused(UdpSweep { sizes_bytes: vec![40], ..order.clone() }));
        assert!(refused(UdpSweep { spacings_s: vec![0.0; 5_001], ..order.clone() }));
        assert!(refused(UdpSweep { count: None, ..order }));
    }
}
