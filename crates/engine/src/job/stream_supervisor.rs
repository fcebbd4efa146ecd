//! Opens a job's streams while it runs, and replaces those that are lost.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use wire::WireError;
use wire::limits::STREAMS_MAX;

use super::paths::{Paths, StreamDemand};
use super::sampler::Sampler;
use super::{ExtraPaths, JobFacts, StreamPool, Streams};
use crate::dial;
use crate::error::{Error, Result};
use crate::link::Link;
use crate::side::StreamEnd;

/// From this round-trip time on, streams do not wait for the node's answer to the login.
const FAR: Duration = Duration::from_millis(20);

/// Keeps a job's streams at the wanted number: dials or accepts them, and replaces lost ones, more slowly each time, up to a bound.
#[derive(Default)]
pub(super) struct StreamSupervisor {
    paths: Paths,
    /// Numbers of streams that failed before the node saw them: they may be used again.
    free_numbers: Vec<u32>,
    dialled: bool,
    replaced: u32,
    /// Bytes that had arrived when streams were last lost.
    arrived: u64,
}

impl StreamSupervisor {
    /// How many streams may be lost before the job is given up, while nothing moves.
    const REPLACED_MAX: u32 = 32;

    pub(super) fn step(
        &mut self,
        link: &Link,
        pool: &mut StreamPool,
        streams: &mut Streams<'_>,
        by_settings: u32,
        sampler: &mut Sampler,
        job_facts: &mut JobFacts,
    ) -> Result<()> {
        Self::take_suite(link, pool)?;
        self.open(link, pool, streams, by_settings, sampler);
        while let Ok(end) = pool.ends.try_recv() {
            pool.running -= 1;
            self.handle_end(pool, streams, by_settings, sampler, job_facts, end)?;
        }
        Ok(())
    }

    /// Handles the end of a stream while the job goes on: replaces the stream where it is still wanted.
    fn handle_end(
        &mut self,
        pool: &mut StreamPool,
        streams: &mut Streams<'_>,
        by_settings: u32,
        sampler: &mut Sampler,
        job_facts: &mut JobFacts,
        end: StreamEnd,
    ) -> Result<()> {
        let id = end.facts.id;
        // The job is not over: a stream that ended without an error was retired, refused, or closed by a device on the path.
        let retired = end.result.is_ok() && end.facts.bytes > 0;
        let closed_early = || Error::Broken { peer: pool.peer.clone(), source: ErrorKind::UnexpectedEof.into() };
        let error = job_facts.note_stream_end(end, &mut sampler.ended).map_or_else(|error| error, |()| closed_early());
        if matches!(error, Error::Connect { .. }) {
            self.free_numbers.push(id);
        }
        let Streams::Dial { count, streams_max, opened, .. } = &mut *streams else { return Ok(()) };
        let path = self.paths.ended(id);
        // The stream was retired, and has sent all that it was given: nothing is wrong with its path.
        if retired && !self.paths.is_single() {
            return Ok(());
        }
        // Another path carries: this one is tried again after a rest.
        if self.paths.another_carries(path, |stream| pool.has_carried(stream)) {
            self.paths.rest(path, Instant::now(), |stream| pool.has_carried(stream));
            return Ok(());
        }
        // Fewer streams are wanted by now.
        let lost_on = &self.paths.all[path];
        let wanted = if self.paths.is_single() {
            wanted(*count, by_settings_or_evidence(by_settings, sampler, &lost_on.streams), *streams_max)
        } else {
            lost_on.wanted
        };
        if lost_on.streams.len() >= wanted as usize {
            return Ok(());
        }
        let arrived = pool.side.progress().bytes_arrived;
        // Losses add up only while nothing moves.
        if arrived > self.arrived + wire::limits::BLOCK_BYTES {
            self.replaced = 0;
            self.arrived = arrived;
        }
        self.replaced += 1;
        if self.replaced > Self::REPLACED_MAX || pool.running == 0 && self.replaced > Self::REPLACED_MAX / 4 {
            return Err(error);
        }
        self.dial(pool, path, opened, Duration::from_millis(50) * self.replaced);
        Ok(())
    }

    fn dial(&mut self, pool: &mut StreamPool, path: usize, opened: &mut u32, after: Duration) {
        let number = self.free_numbers.pop().unwrap_or_else(|| {
            *opened += 1;
            *opened
        });
        let path = &mut self.paths.all[path];
        path.streams.insert(number);
        pool.dial(&path.to, path.delegated_session(), number, after);
    }

    /// Opens the streams that are wanted: the first ones, and further ones after a change of the job.
    fn open(
        &mut self,
        link: &Link,
        pool: &mut StreamPool,
        streams: &mut Streams<'_>,
        by_settings: u32,
        sampler: &Sampler,
    ) {
        match streams {
            Streams::Dial { to, extra_paths, count, streams_max, opened, kept } => {
                self.paths.begin(to);
                self.add_paths(link, extra_paths);
                let closed = self.paths.close_except(|address| link.stream_addresses().any(|open| open == address));
                closed.into_iter().for_each(|stream| pool.give_up(stream));
                // As many streams stayed as the evidence asked for; the settings of this job may ask for fewer.
                if by_settings > 0 {
                    kept.truncate(by_settings as usize);
                }
                for stream in std::mem::take(kept) {
                    let path = self.paths.index_of(stream.peer());
                    self.paths.all[path].streams.insert(stream.id());
                    pool.resume(stream);
                }
                // Over a long path streams are dialled before the node has answered the login: that saves a round trip, and in
                // this round trip the node registers the session that they join. How streams join depends on the answer only
                // where payload in clear was asked for.
                let far = sys::tcp::info(link.socket()).is_ok_and(|info| info.min_rtt >= FAR);
                let is_too_early = link.welcome().is_none() && (pool.terms.plain || !far);
                if is_too_early || !self.dialled && !pool.side.wants_streams() {
                    return;
                }
                self.dialled = true;
                if self.paths.is_single() {
                    self.open_one(pool, *count, *streams_max, opened, by_settings, sampler);
                } else {
                    self.open_several(pool, *count, *streams_max, opened, by_settings, sampler);
                }
            }
            Streams::Accept { joined, kept, last_old_stream } => {
                std::mem::take(kept).into_iter().for_each(|stream| pool.resume(stream));
                while let Ok(stream) = joined.try_recv() {
                    // The records of an earlier job's stream would be taken for this job's.
                    if stream.id > *last_old_stream {
                        pool.join(stream);
                    }
                }
            }
        }
    }

    /// Adds the further addresses at which the node takes streams, as far as they are allowed.
    fn add_paths(&mut self, link: &Link, extra_paths: &ExtraPaths) {
        let ExtraPaths::Allowed(guard) = extra_paths else { return };
        let own = link.socket().peer_addr().ok();
        for address in link.stream_addresses().filter(|address| self.paths.is_new(*address, own)).collect::<Vec<_>>() {
            let is_allowed = own.is_some_and(|own| dial::may_dial_advertised(own.ip(), address.at.ip()));
            if is_allowed && guard.as_ref().is_none_or(|guard| guard(address.at.ip()).is_ok()) {
                self.paths.add(address, own);
            }
        }
    }

    /// Opens the streams of a job with one path. [`Self::handle_end`] replaces lost streams.
    fn open_one(
        &mut self,
        pool: &mut StreamPool,
        count: u32,
        streams_max: u32,
        opened: &mut u32,
        by_settings: u32,
        sampler: &Sampler,
    ) {
        let path = &mut self.paths.all[0];
        let wanted = wanted(count, by_settings_or_evidence(by_settings, sampler, &path.streams), streams_max);
        if wanted == path.wanted {
            return;
        }
        path.wanted = wanted;
        while self.paths.all[0].streams.len() < wanted as usize {
            self.dial(pool, 0, opened, Duration::ZERO);
        }
    }

    fn open_several(
        &mut self,
        pool: &mut StreamPool,
        count: u32,
        streams_max: u32,
        opened: &mut u32,
        by_settings: u32,
        sampler: &Sampler,
    ) {
        let now = Instant::now();
        for path in 0..self.paths.all.len() {
            let by_evidence = sampler.wanted_streams(&self.paths.all[path].streams);
            let demand = StreamDemand { by_evidence, first: count, by_settings, streams_max };
            let lacks = self.paths.lacking(path, now, demand, |stream| pool.has_carried(stream));
            // A session has a bounded number of streams: the last quarter is kept to replace lost ones.
            let lacks = lacks.min((STREAMS_MAX / 4 * 3).saturating_sub(*opened) + self.free_numbers.len() as u32);
            (0..lacks).for_each(|_| self.dial(pool, path, opened, Duration::ZERO));
        }
    }

    /// Takes over how streams are sealed, once the node has answered the login.
    ///
    /// # Errors
    /// The node wants payload in clear, which this end does not allow.
    fn take_suite(link: &Link, pool: &StreamPool) -> Result<()> {
        let Some(welcome) = link.welcome() else { return Ok(()) };
        if welcome.suite.is_none() && !pool.terms.plain {
            let source = WireError::Unexpected("it wants payload in clear, which this end does not allow");
            return Err(Error::Protocol { peer: pool.peer.clone(), source });
        }
        let _ = pool.terms.suite.set(welcome.suite);
        Ok(())
    }
}

/// The number of streams by the job's settings, else by the evidence; 0 for no opinion.
fn by_settings_or_evidence(by_settings: u32, sampler: &Sampler, streams: &BTreeSet<u32>) -> u32 {
    if by_settings > 0 { by_settings } else { sampler.wanted_streams(streams) }
}

/// The number of streams that there should be: `preferred`, by the job's settings or the evidence; else the client's first `count`. Never
/// more than `streams_max`, where that is not 0.
fn wanted(count: u32, preferred: u32, streams_max: u32) -> u32 {
    let wanted = if preferred > 0 { preferred } else { count };
    if streams_max > 0 { wanted.min(streams_max) } else { wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_limits_settings_and_evidence() {
        assert_eq!(
            [wanted(3, 0, 0), wanted(3, 7, 0), wanted(3, 0, 2), wanted(1, 7, 2), wanted(1, 0, 2)],
            [3, 7, 2, 2, 1]
        );
    }
}
