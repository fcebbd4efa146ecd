//! A delegated session: another node's, whose streams are carried here. See [`crate::lent`].

use model::Refusal;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use model::fault::Fault;
use wire::frame::{Direction, Frame, Totals};
use wire::mover::{DelegatedSession, MoverMessage};

use super::{ClientSession, Event, OURS, OpenRendezvous, ours};
use crate::delegated::{Reader, Writer, Writing};
use crate::error::{Error, Result};
use crate::job::{self, StreamHelpers, StreamTerms, Streams};
use crate::seal::{self, Secret};
use crate::side::Side;

/// What a mover does for a job.
enum MoverRole {
    Reads(Arc<Reader>),
    Writes(Arc<Writer>),
}

impl MoverRole {
    fn side(&self) -> Arc<dyn Side> {
        match self {
            MoverRole::Reads(reader) => Arc::clone(reader) as Arc<dyn Side>,
            MoverRole::Writes(writer) => Arc::new(Writing(Arc::clone(writer))),
        }
    }
}

impl ClientSession<'_> {
    /// Carries streams of the coordinator's session until the coordinator says that the job is over.
    pub(super) fn lent(&mut self, lend: DelegatedSession) -> Result<()> {
        let started = Instant::now();
        let (moved, result) = match self.mover_role(&lend) {
            Ok(mover_role) => {
                let side = mover_role.side();
                let result = self.carry(&lend, &mover_role, &side);
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

    /// This mover's part in the job, if the coordinator may have it done here.
    fn mover_role(&self, lend: &DelegatedSession) -> std::result::Result<MoverRole, Refusal> {
        self.host.still_stands(&self.access)?;
        let (order, waker) = (&lend.order, self.link.waker());
        if order.places.is_empty() {
            return Err(Refusal::new(Fault::Peer, "a job without places was lent"));
        }
        if lend.suite.is_none() && !self.host.allows_plain() {
            let reason =
                "the coordinator allows payload in clear and this mover does not; set --plain at both, or at neither";
            return Err(Refusal::new(Fault::Config, reason));
        }
        Ok(match order.direction {
            Direction::Push => {
                let tag = crate::identity::random_tag();
                let tag = tag.map_err(|_| Refusal::new(Fault::Local, "this system gives no random numbers"))?;
                let place = self.host.target(&self.access, order, &tag)?;
                // A mover writes to unfinished files that the coordinator has begun: that takes the right to replace files.
                place.may_replace?;
                MoverRole::Writes(Writer::new(place.store, place.path, &order.options, waker))
            }
            Direction::Pull => {
                let roots = order.places.iter().map(|place| self.host.source(&self.access, place));
                let roots = roots.collect::<std::result::Result<Vec<_>, _>>()?;
                MoverRole::Reads(Reader::new(roots, &order.options.checksums, waker))
            }
        })
    }

    fn carry(&mut self, lend: &DelegatedSession, mover_role: &MoverRole, side: &Arc<dyn Side>) -> Result<()> {
        let role = if side.sends() { "send" } else { "receive" };
        let (control, _held) = self.job_control(&lend.order, role)?;
        let secret = Secret::new(&lend.secret);
        let (sender, joined) = channel();
        let (sealed, waker) = (lend.suite.is_some(), self.link.waker());
        let rendezvous = OpenRendezvous { secret: secret.clone(), sealed, joined: sender, waker };
        let _rendezvous = self.host.open_gate(lend.session, rendezvous).map_err(ours)?;
        self.link.send(&Frame::Word(MoverMessage::Ready))?;
        let terms = StreamTerms {
            session: lend.session,
            secret,
            role: seal::SealingEnd::Node,
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
            help: StreamHelpers::Lent,
        };
        let streams = Streams::Accept { joined: &joined, kept: Vec::new(), floor: 0 };
        let (driven, result) = job::drive(&mut self.link, side, terms, streams, &control, &mut |_| {});
        let clean = match mover_role {
            MoverRole::Reads(_) => true,
            MoverRole::Writes(writer) => writer.let_go(),
        };
        result?;
        if !clean {
            return Err(Error::WriteUnderWay);
        }
        self.link.send(&Frame::Facts(driven.streams))
    }
}
