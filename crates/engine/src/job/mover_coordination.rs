//! Coordinates the movers of a job, on the thread that drives the job.

use std::sync::Arc;

use model::account::Account;
use model::spec::LiveSettings;
use model::v1;

use super::StreamHelpers;
use super::sampler::Sampler;
use super::stream_pool::StreamPool;
use crate::error::Result;
use crate::link::Link;
use crate::movers::{DelegationTerms, Movers};
use crate::side::Side;

/// Asks movers once the job is large enough, and passes reports between the client and the movers.
#[derive(Default)]
pub(super) struct MoverCoordination {
    movers: Option<Movers>,
    /// The settings that were last sent to the movers.
    sent_settings: Option<LiveSettings>,
}

impl MoverCoordination {
    pub(super) fn step(&mut self, link: &mut Link, pool: &StreamPool, steer: &LiveSettings) -> Result<()> {
        self.begin(link, pool);
        let Some(movers) = &self.movers else { return Ok(()) };
        movers.send_addresses(link)?;
        if self.sent_settings != Some(*steer) {
            movers.steer(steer);
            self.sent_settings = Some(*steer);
        }
        Ok(())
    }

    /// Asks the movers to take streams, once the job is large enough and it is agreed how its streams are sealed.
    fn begin(&mut self, link: &Link, pool: &StreamPool) {
        let terms = &pool.terms;
        let StreamHelpers::Movers(peers, order) = &terms.help else { return };
        let Some(suite) = terms.suite.get().filter(|_| self.movers.is_none()) else { return };
        let Some(side) = Arc::clone(&pool.side).for_movers() else { return };
        if Movers::are_worthwhile(&pool.side.progress()) {
            let delegation = DelegationTerms { secret: terms.secret.clone(), suite: *suite, order: (**order).clone() };
            self.movers = Some(Movers::begin(peers, delegation, side, link.waker()));
        }
    }

    /// Takes the movers' reports over into the sampler. Returns how many streams they carry.
    pub(super) fn collect_reports(&self, sampler: &mut Sampler) -> usize {
        let Some(movers) = &self.movers else { return 0 };
        let (streams, accounts) = movers.accounts();
        sampler.take_mover_reports(movers.spread(), accounts);
        streams
    }

    /// Takes over the other end's account, and passes it to the movers: their pilots need it too.
    pub(super) fn take_peer_account(&self, account: Box<Account>, sampler: &mut Sampler) {
        if let Some(movers) = &self.movers {
            movers.pass_client_account(&account);
        }
        sampler.peer = Some(account);
    }

    /// Ends the movers' part of the job. Returns the facts of their streams.
    pub(super) fn end(&self, side: &dyn Side) -> Vec<v1::Stream> {
        self.movers.as_ref().map(|movers| movers.end(!side.sends())).unwrap_or_default()
    }
}
