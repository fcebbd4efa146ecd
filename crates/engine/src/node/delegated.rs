//! A delegated session: this node is a mover, and carries some of the streams of another node's session. See [`crate::delegated`].

use model::Refusal;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use model::fault::Fault;
use wire::frame::{Direction, Frame, Totals};
use wire::mover::{DelegatedSession, MoverMessage};

use super::{ClientSession, Event, OpenRendezvous, THIS_NODE, refused};
use crate::delegated::{Reader, Writer, WriterSide};
use crate::error::{Error, Result};
use crate::job::{self, StreamHelpers, StreamTerms, Streams};
use crate::seal::{self, Secret};
use crate::side::Side;

/// The part of a mover in a job.
enum MoverRole {
    Reads(Arc<Reader>),
    Writes(Arc<Writer>),
}

impl MoverRole {
    fn side(&self) -> Arc<dyn Side> {
        match self {
            MoverRole::Reads(reader) => Arc::clone(reader) as Arc<dyn Side>,
            MoverRole::Writes(writer) => Arc::new(WriterSide(Arc::clone(writer))),
        }
    }
}

impl ClientSession<'_> {
    /// Carries streams of the coordinator's session until the coordinator says that the job is over.
    pub(super) fn run_delegated(&mut self, delegated: DelegatedSession) -> Result<()> {
        let started = Instant::now();
        let (moved, result) = match self.mover_role(&delegated) {
            Ok(mover_role) => {
                let side = mover_role.side();
                let result = self.carry(&delegated, &mover_role, &side);
                (side.progress().bytes_arrived, result)
            }
            Err(refusal) => (0, Err(refused(refusal))),
        };
        let totals = Totals { bytes: moved, ..Totals::default() };
        let elapsed = started.elapsed();
        let error = result.as_ref().err();
        self.host.note(self.peer, &self.access, &Event::Job { order: &delegated.order, totals, elapsed, error });
        if let Err(Error::Refused { refusal, peer }) = &result
            && peer == THIS_NODE
        {
            self.link.abort(refusal.clone());
        }
        result
    }

    /// This mover's part in the job, if the coordinator has the rights for it here.
    fn mover_role(&self, delegated: &DelegatedSession) -> std::result::Result<MoverRole, Refusal> {
        self.host.check_access(&self.access)?;
        let order = &delegated.order;
        let waker = self.link.waker();
        if order.places.is_empty() {
            return Err(Refusal::new(Fault::Peer, "a job without places was delegated"));
        }
        if delegated.suite.is_none() && !self.host.allows_plain() {
            let reason =
                "the coordinator allows payload in clear and this mover does not; set --plain at both, or at neither";
            return Err(Refusal::new(Fault::Config, reason));
        }
        if let Some(reason) = delegated.suite.and_then(seal::objection) {
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

    fn carry(&mut self, delegated: &DelegatedSession, mover_role: &MoverRole, side: &Arc<dyn Side>) -> Result<()> {
        let role = if side.sends() { "send" } else { "receive" };
        let (control, _guard) = self.job_control(&delegated.order, role)?;
        let secret = Secret::new(&delegated.secret);
        let (sender, joined) = channel();
        let sealed = delegated.suite.is_some();
        let waker = self.link.waker();
        let rendezvous = OpenRendezvous { secret: secret.clone(), sealed, joined: sender, waker };
        let _rendezvous = self.host.open_rendezvous(delegated.session, rendezvous).map_err(refused)?;
        self.link.send(&Frame::Word(MoverMessage::Ready))?;
        let terms = StreamTerms {
            session: delegated.session,
            secret,
            role: seal::SealingEnd::Node,
            suite: Arc::new(OnceLock::from(delegated.suite)),
            plain: delegated.suite.is_none(),
            permitted: job::permitted(delegated.order.congestion.clone()),
            past: None,
            history: None,
            series: None,
            path_shares: None,
            ordered: delegated.order.steer,
            patience: self.job_terms(&delegated.order).patience,
            keep: false,
            help: StreamHelpers::Delegated,
            marker: None,
        };
        let streams = Streams::Accept { joined: &joined, kept: Vec::new(), last_old_stream: 0 };
        let (job_facts, result) = job::drive(&mut self.link, side, terms, streams, &control, &mut |_| {});
        let clean = match mover_role {
            MoverRole::Reads(_) => true,
            MoverRole::Writes(writer) => writer.close_all(),
        };
        result?;
        if !clean {
            return Err(Error::WriteUnderWay);
        }
        self.link.send(&Frame::Facts(job_facts.streams))
    }
}
