//! A session of another node whose streams are carried here: see [`crate::lent`].

use model::Refusal;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use model::fault::Fault;
use wire::frame::{Direction, Frame, Totals};
use wire::mover::{Lend, Word};

use super::{Event, Gate, Guest, OURS, ours};
use crate::error::{Error, Result};
use crate::job::{self, Help, StreamTerms, Streams};
use crate::lent::{Reader, Writer, Writing};
use crate::seal::{self, Secret};
use crate::side::Side;

/// What a mover does for a job.
enum Part {
    Reads(Arc<Reader>),
    Writes(Arc<Writer>),
}

impl Part {
    fn side(&self) -> Arc<dyn Side> {
        match self {
            Part::Reads(reader) => Arc::clone(reader) as Arc<dyn Side>,
            Part::Writes(writer) => Arc::new(Writing(Arc::clone(writer))),
        }
    }
}

impl Guest<'_> {
    /// Carries streams of the head's session until the head says that the job is over.
    pub(super) fn lent(&mut self, lend: Lend) -> Result<()> {
        let started = Instant::now();
        let (moved, result) = match self.part(&lend) {
            Ok(part) => {
                let side = part.side();
                let result = self.carry(&lend, &part, &side);
                (side.progress().bytes_arrived, result)
            }
            Err(refusal) => (0, Err(ours(refusal))),
        };
        let totals = Totals { bytes: moved, ..Totals::default() };
        let (elapsed, error) = (started.elapsed(), result.as_ref().err());
        self.host.note(self.peer, &self.access, &Event::Job { order: &lend.order, totals, elapsed, error });
        if let Err(Error::Refused { refusal, peer }) = &result
            && peer == OURS
        {
            self.link.abort(refusal.clone());
        }
        result
    }

    /// What is to be done, if the head may have it done here.
    fn part(&self, lend: &Lend) -> std::result::Result<Part, Refusal> {
        self.host.still_stands(&self.access)?;
        let (order, waker) = (&lend.order, self.link.waker());
        if order.places.is_empty() {
            return Err(Refusal::new(Fault::Peer, "a job without places was lent"));
        }
        if lend.suite.is_none() && !self.host.allows_plain() {
            let reason = "the head allows payload in clear and this mover does not; set --plain at both, or at neither";
            return Err(Refusal::new(Fault::Config, reason));
        }
        Ok(match order.direction {
            Direction::Push => {
                let tag = crate::identity::random_tag();
                let tag = tag.map_err(|_| Refusal::new(Fault::Local, "this system gives no random numbers"))?;
                let place = self.host.target(&self.access, order, &tag)?;
                // It writes to unfinished files that others have begun: no less than changing what is there.
                place.may_replace?;
                Part::Writes(Writer::new(place.store, place.path, &order.options, waker))
            }
            Direction::Pull => {
                let roots = order.places.iter().map(|place| self.host.source(&self.access, place));
                let roots = roots.collect::<std::result::Result<Vec<_>, _>>()?;
                Part::Reads(Reader::new(roots, &order.options.checksums, waker))
            }
        })
    }

    fn carry(&mut self, lend: &Lend, part: &Part, side: &Arc<dyn Side>) -> Result<()> {
        let role = if side.sends() { "send" } else { "receive" };
        let (control, _held) = self.reins(&lend.order, role)?;
        let secret = Secret::new(&lend.secret);
        let (sender, joined) = channel();
        let (sealed, waker) = (lend.suite.is_some(), self.link.waker());
        let gate = Gate { secret: secret.clone(), sealed, joined: sender, waker };
        let _gate = self.host.open_gate(lend.session, gate).map_err(ours)?;
        self.link.send(&Frame::Word(Word::Ready))?;
        let terms = StreamTerms {
            session: lend.session,
            secret,
            role: seal::From::Node,
            suite: Arc::new(OnceLock::from(lend.suite)),
            plain: lend.suite.is_none(),
            permitted: job::permitted(lend.order.congestion.clone()),
            past: None,
            history: None,
            series: None,
            path_shares: None,
            ordered: lend.order.steer,
            patience: self.job_terms(&lend.order).patience,
            keep: false,
            help: Help::Lent,
        };
        let streams = Streams::Accept { joined: &joined, kept: Vec::new(), floor: 0 };
        let (driven, result) = job::drive(&mut self.link, side, terms, streams, &control, &mut |_| {});
        let clean = match part {
            Part::Reads(_) => true,
            Part::Writes(writer) => writer.let_go(),
        };
        result?;
        if !clean {
            return Err(Error::WriteUnderWay);
        }
        self.link.send(&Frame::Facts(driven.streams))
    }
}
