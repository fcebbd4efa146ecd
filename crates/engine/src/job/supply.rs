//! Where a job's streams come from while it runs.

use std::io::ErrorKind;
use std::time::Duration;

use wire::WireError;

use super::gauge::Gauge;
use super::{Crew, Driven, Streams};
use crate::error::{Error, Result};
use crate::link::Link;

/// From this round-trip time on streams do not wait for the node's answer to the login.
const FAR: Duration = Duration::from_millis(20);

/// Keeps a job in streams: dials or accepts them, and dials again those that were lost, slower each time, and not for
/// ever.
#[derive(Default)]
pub(super) struct Supply {
    dialled: bool,
    wanted: u32,
    replaced: u32,
    /// Bytes that had arrived when streams were last lost.
    arrived: u64,
}

impl Supply {
    /// Streams that may be lost with nothing moving in between before the job is given up.
    const REPLACED_MAX: u32 = 32;

    pub(super) fn tend(
        &mut self,
        link: &Link,
        crew: &mut Crew,
        streams: &mut Streams<'_>,
        (steered, gauge): (u32, &mut Gauge),
        driven: &mut Driven,
    ) -> Result<()> {
        let steered = if steered > 0 { steered } else { gauge.wish() };
        Self::agree(link, crew)?;
        self.open(link, crew, streams, steered)?;
        while let Ok(end) = crew.ends.try_recv() {
            crew.running -= 1;
            // The job is not over: a stream that ended in peace was refused, or closed by something in between.
            let early = || Error::Broken { peer: crew.peer.clone(), source: ErrorKind::UnexpectedEof.into() };
            let error = driven.note(end, &mut gauge.ended).map_or_else(|error| error, |()| early());
            if let Streams::Dial { to, count, most, opened, .. } = &mut *streams {
                // Or it was one too many.
                if crew.running >= wanted(*count, steered, *most) as usize {
                    continue;
                }
                let arrived = crew.side.progress().bytes_arrived;
                // Losses that something moved in between do not add up.
                if arrived > self.arrived + wire::limits::BLOCK_BYTES {
                    (self.replaced, self.arrived) = (0, arrived);
                }
                self.replaced += 1;
                if self.replaced > Self::REPLACED_MAX || crew.running == 0 && self.replaced > Self::REPLACED_MAX / 4 {
                    return Err(error);
                }
                **opened += 1;
                crew.dial(to, **opened, Duration::from_millis(50) * self.replaced);
            }
        }
        Ok(())
    }

    /// Opens the streams that are wanted: the first ones, and those that a change of the job adds.
    fn open(&mut self, link: &Link, crew: &mut Crew, streams: &mut Streams<'_>, steered: u32) -> Result<()> {
        match streams {
            Streams::Dial { to, count, most, opened, kept } => {
                // What stayed is as many as the evidence asked for; more than somebody asks for now it may be.
                if steered > 0 {
                    kept.truncate(steered as usize);
                }
                std::mem::take(kept).into_iter().for_each(|stream| crew.resume(stream));
                let wanted = wanted(*count, steered, *most);
                if !self.dialled && !crew.side.wants_streams() || wanted == self.wanted {
                    return Ok(());
                }
                // Over a long path streams are dialled while the node still makes up its mind: that saves a round trip,
                // which is also the time it has to open its gate before they knock. How they are joined depends on its
                // answer only where payload in clear was asked for.
                let far = sys::tcp::info(link.socket()).is_ok_and(|info| info.min_rtt >= FAR);
                if link.welcome().is_none() && (crew.terms.plain || !far) {
                    return Ok(());
                }
                (self.dialled, self.wanted) = (true, wanted);
                while crew.running < wanted as usize {
                    **opened += 1;
                    crew.dial(to, **opened, Duration::ZERO);
                }
            }
            Streams::Accept { joined, kept, floor } => {
                std::mem::take(kept).into_iter().for_each(|stream| crew.resume(stream));
                while let Ok((socket, id)) = joined.try_recv() {
                    // What a stream of an earlier job still brings would be taken for this one's.
                    if id > *floor {
                        crew.join(socket, id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Hears how streams are sealed.
    fn agree(link: &Link, crew: &Crew) -> Result<()> {
        let Some(welcome) = link.welcome() else { return Ok(()) };
        if welcome.suite.is_none() && !crew.terms.plain {
            let source = WireError::Unexpected("it wants payload in clear, which nobody asked for");
            return Err(Error::Protocol { peer: crew.peer.clone(), source });
        }
        let _ = crew.terms.suite.set(welcome.suite);
        Ok(())
    }
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
