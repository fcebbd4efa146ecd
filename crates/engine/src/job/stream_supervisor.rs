//! Where a job's streams come from while it runs.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use wire::WireError;
use wire::limits::STREAMS_MAX;

use super::paths::Paths;
use super::sampler::Sampler;
use super::{Beside, Driven, StreamPool, Streams};
use crate::dial;
use crate::error::{Error, Result};
use crate::link::Link;
use crate::side::StreamEnd;

/// From this round-trip time on streams do not wait for the node's answer to the login.
const FAR: Duration = Duration::from_millis(20);

/// Keeps a job in streams: dials or accepts them, and dials again those that were lost, slower each time, and not for
/// ever.
#[derive(Default)]
pub(super) struct StreamSupervisor {
    paths: Paths,
    /// Numbers of streams that never got as far as showing them to the node.
    free: Vec<u32>,
    dialled: bool,
    replaced: u32,
    /// Bytes that had arrived when streams were last lost.
    arrived: u64,
}

impl StreamSupervisor {
    /// Streams that may be lost with nothing moving in between before the job is given up.
    const REPLACED_MAX: u32 = 32;

    pub(super) fn tend(
        &mut self,
        link: &Link,
        pool: &mut StreamPool,
        streams: &mut Streams<'_>,
        (steered, sampler): (u32, &mut Sampler),
        driven: &mut Driven,
    ) -> Result<()> {
        Self::agree(link, pool)?;
        self.open(link, pool, streams, (steered, sampler));
        while let Ok(end) = pool.ends.try_recv() {
            pool.running -= 1;
            self.lost(pool, streams, (steered, sampler), driven, end)?;
        }
        Ok(())
    }

    /// A stream ended while the job goes on.
    fn lost(
        &mut self,
        pool: &mut StreamPool,
        streams: &mut Streams<'_>,
        (steered, sampler): (u32, &mut Sampler),
        driven: &mut Driven,
        end: StreamEnd,
    ) -> Result<()> {
        let id = end.facts.id;
        // The job is not over: a stream that ended in peace was refused, or closed by something in between.
        let retired = end.result.is_ok() && end.facts.bytes > 0;
        let early = || Error::Broken { peer: pool.peer.clone(), source: ErrorKind::UnexpectedEof.into() };
        let error = driven.note(end, &mut sampler.ended).map_or_else(|error| error, |()| early());
        if matches!(error, Error::Connect { .. }) {
            self.free.push(id);
        }
        let Streams::Dial { count, most, opened, .. } = &mut *streams else { return Ok(()) };
        let way = self.paths.ended(id);
        // It was one too many, and has carried all that it was to: nothing is wrong with its way.
        if retired && !self.paths.is_one() {
            return Ok(());
        }
        // Another way carries: this one is tried again by and by.
        if self.paths.others_run(way, |stream| pool.has_carried(stream)) {
            self.paths.rest(way, Instant::now(), |stream| pool.has_carried(stream));
            return Ok(());
        }
        // Or it was one too many.
        let route = &self.paths.all[way];
        let wanted = match self.paths.is_one() {
            true => wanted(*count, asked(steered, sampler, &route.streams), *most),
            false => route.wanted,
        };
        if route.streams.len() >= wanted as usize {
            return Ok(());
        }
        let arrived = pool.side.progress().bytes_arrived;
        // Losses that something moved in between do not add up.
        if arrived > self.arrived + wire::limits::BLOCK_BYTES {
            (self.replaced, self.arrived) = (0, arrived);
        }
        self.replaced += 1;
        if self.replaced > Self::REPLACED_MAX || pool.running == 0 && self.replaced > Self::REPLACED_MAX / 4 {
            return Err(error);
        }
        self.dial(pool, way, opened, Duration::from_millis(50) * self.replaced);
        Ok(())
    }

    fn dial(&mut self, pool: &mut StreamPool, way: usize, opened: &mut u32, after: Duration) {
        let number = self.free.pop().unwrap_or_else(|| {
            *opened += 1;
            *opened
        });
        let route = &mut self.paths.all[way];
        route.streams.insert(number);
        pool.dial(route.way(), number, after);
    }

    /// Opens the streams that are wanted: the first ones, and those that a change of the job adds.
    fn open(
        &mut self,
        link: &Link,
        pool: &mut StreamPool,
        streams: &mut Streams<'_>,
        (steered, sampler): (u32, &Sampler),
    ) {
        match streams {
            Streams::Dial { to, beside, count, most, opened, kept } => {
                self.paths.begin(to);
                self.learn(link, beside);
                let closed = self.paths.close_but(|way| link.ways().any(|open| open == way));
                closed.into_iter().for_each(|stream| pool.give_up(stream));
                // What stayed is as many as the evidence asked for; more than somebody asks for now it may be.
                if steered > 0 {
                    kept.truncate(steered as usize);
                }
                for stream in std::mem::take(kept) {
                    let way = self.paths.takes(stream.peer());
                    self.paths.all[way].streams.insert(stream.id());
                    pool.resume(stream);
                }
                // Over a long path streams are dialled while the node still makes up its mind: that saves a round trip,
                // which is also the time it has to open its gate before they knock. How they are joined depends on its
                // answer only where payload in clear was asked for.
                let far = sys::tcp::info(link.socket()).is_ok_and(|info| info.min_rtt >= FAR);
                let early = link.welcome().is_none() && (pool.terms.plain || !far);
                if early || !self.dialled && !pool.side.wants_streams() {
                    return;
                }
                self.dialled = true;
                match self.paths.is_one() {
                    true => self.open_one(pool, (*count, *most), opened, (steered, sampler)),
                    false => self.open_several(pool, (*count, *most), opened, (steered, sampler)),
                }
            }
            Streams::Accept { joined, kept, floor } => {
                std::mem::take(kept).into_iter().for_each(|stream| pool.resume(stream));
                while let Ok(stream) = joined.try_recv() {
                    // What a stream of an earlier job still brings would be taken for this one's.
                    if stream.id > *floor {
                        pool.join(stream);
                    }
                }
            }
        }
    }

    /// Hears where else the node takes streams.
    fn learn(&mut self, link: &Link, beside: &Beside) {
        let Beside::Allowed(guard) = beside else { return };
        let own = link.socket().peer_addr().ok();
        for way in link.ways().filter(|way| self.paths.lacks(*way, own)).collect::<Vec<_>>() {
            let is_near = own.is_some_and(|own| dial::is_as_near(own.ip(), way.at.ip()));
            if is_near && guard.as_ref().is_none_or(|guard| guard(way.at.ip()).is_ok()) {
                self.paths.learn(way, own);
            }
        }
    }

    /// The one way there is: what was lost of it is replaced where its end is heard.
    fn open_one(
        &mut self,
        pool: &mut StreamPool,
        (count, most): (u32, u32),
        opened: &mut u32,
        (steered, sampler): (u32, &Sampler),
    ) {
        let route = &mut self.paths.all[0];
        let wanted = wanted(count, asked(steered, sampler, &route.streams), most);
        if wanted == route.wanted {
            return;
        }
        route.wanted = wanted;
        while self.paths.all[0].streams.len() < wanted as usize {
            self.dial(pool, 0, opened, Duration::ZERO);
        }
    }

    fn open_several(
        &mut self,
        pool: &mut StreamPool,
        (count, most): (u32, u32),
        opened: &mut u32,
        (steered, sampler): (u32, &Sampler),
    ) {
        let now = Instant::now();
        for way in 0..self.paths.all.len() {
            let wish = sampler.wish(&self.paths.all[way].streams);
            let lacks = self.paths.lacking(way, now, (wish, count), (steered, most), |stream| pool.has_carried(stream));
            // The session's numbers end: what is left of them is for replacing what is lost.
            let lacks = lacks.min((STREAMS_MAX / 4 * 3).saturating_sub(*opened) + self.free.len() as u32);
            (0..lacks).for_each(|_| self.dial(pool, way, opened, Duration::ZERO));
        }
    }

    /// Hears how streams are sealed.
    fn agree(link: &Link, pool: &StreamPool) -> Result<()> {
        let Some(welcome) = link.welcome() else { return Ok(()) };
        if welcome.suite.is_none() && !pool.terms.plain {
            let source = WireError::Unexpected("it wants payload in clear, which nobody asked for");
            return Err(Error::Protocol { peer: pool.peer.clone(), source });
        }
        let _ = pool.terms.suite.set(welcome.suite);
        Ok(())
    }
}

/// What somebody asked for, else what the evidence says.
fn asked(steered: u32, sampler: &Sampler, streams: &BTreeSet<u32>) -> u32 {
    if steered > 0 { steered } else { sampler.wish(streams) }
}

/// How many streams there should be: what the job's settings or the evidence say, else what the client chose, up to a bound.
fn wanted(count: u32, steered: u32, most: u32) -> u32 {
    let wanted = if steered > 0 { steered } else { count };
    if most > 0 { wanted.min(most) } else { wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_whoever_wants_more() {
        assert_eq!(
            [wanted(3, 0, 0), wanted(3, 7, 0), wanted(3, 0, 2), wanted(1, 7, 2), wanted(1, 0, 2)],
            [3, 7, 2, 2, 1]
        );
    }
}
