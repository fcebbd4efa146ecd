//! The movers that help with a job, as the thread that drives it sees them.

use std::sync::Arc;

use model::account::Account;
use model::spec::Steer;
use model::v1;

use super::Help;
use super::sampler::Sampler;
use super::stream_pool::StreamPool;
use crate::error::Result;
use crate::link::Link;
use crate::movers::{Loans, Movers};
use crate::side::Side;

/// Asks movers once the job is worth it, and keeps client and movers informed of each other.
#[derive(Default)]
pub(super) struct MoverCoordination {
    movers: Option<Movers>,
    steered: Option<Steer>,
}

impl MoverCoordination {
    pub(super) fn tend(&mut self, link: &mut Link, pool: &StreamPool, steer: &Steer) -> Result<()> {
        self.ask(link, pool);
        let Some(movers) = &self.movers else { return Ok(()) };
        movers.tell(link)?;
        if self.steered != Some(*steer) {
            movers.steer(steer);
            self.steered = Some(*steer);
        }
        Ok(())
    }

    fn ask(&mut self, link: &Link, pool: &StreamPool) {
        let terms = &pool.terms;
        let Help::Movers(peers, order) = &terms.help else { return };
        let Some(suite) = terms.suite.get().filter(|_| self.movers.is_none()) else { return };
        let Some(side) = Arc::clone(&pool.side).for_movers() else { return };
        if Movers::are_worth(&pool.side.progress()) {
            let loans = Loans { secret: terms.secret.clone(), suite: *suite, order: (**order).clone() };
            self.movers = Some(Movers::begin(peers, loans, side, link.waker()));
        }
    }

    /// How many streams they carry; what they say of themselves is taken in.
    pub(super) fn look(&self, sampler: &mut Sampler) -> usize {
        let Some(movers) = &self.movers else { return 0 };
        let (streams, accounts) = movers.accounts();
        sampler.aided_by(movers.spread(), accounts);
        streams
    }

    /// What the other end says of itself. The pilots of movers go by that as well.
    pub(super) fn hear_of_peer(&self, account: Box<Account>, sampler: &mut Sampler) {
        if let Some(movers) = &self.movers {
            movers.hear_of_client(&account);
        }
        sampler.peer = Some(account);
    }

    /// The job is over: the movers go, and say what their streams did.
    pub(super) fn end(&self, side: &dyn Side) -> Vec<v1::Stream> {
        self.movers.as_ref().map(|movers| movers.end(!side.sends())).unwrap_or_default()
    }
}
