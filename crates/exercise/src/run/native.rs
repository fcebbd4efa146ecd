//! Rounds that the node at the source moves by its own protocol.

use std::sync::Arc;
use std::time::Instant;

use model::id::Uuid;
use model::v1::node::{Credentials, Options, Order};
use model::v1::{Change, Transfer};

use super::lease::Leases;
use super::round::{RoundDriver, RoundEnd, RoundSample};
use super::sampler::{NodeSampler, TransferSample};
use crate::file::ExerciseFlow;

/// How long a transfer is tried again without progress, seconds: faults of an exercise last less.
const RETRY_FOR_S: u64 = 120;

/// What a round moves.
#[derive(Clone, Debug)]
pub(crate) struct NativeRound {
    /// The source, a path of the node: a directory of its scratch place, or `/zero:SIZE`.
    pub source: String,
    /// The target at the other node.
    pub target: String,
    /// The streams; none leaves it to the node.
    pub streams: Option<u32>,
    /// Whether the source is a directory.
    pub is_tree: bool,
    /// The SciTag of the traffic.
    pub scitag: Option<u16>,
}

/// Moves rounds.
pub(crate) struct NativeDriver {
    round: NativeRound,
    from: String,
    to: String,
    leases: Arc<Leases>,
    sampler: Arc<NodeSampler>,
    limit_bit_s: u64,
    id: Uuid,
    last_sample: Option<Instant>,
    /// What the transfer was waiting for when it was last seen.
    waited_for: String,
}

impl NativeDriver {
    /// Moves rounds between two sites.
    pub fn new(
        round: NativeRound,
        flow: &ExerciseFlow,
        leases: Arc<Leases>,
        sampler: Arc<NodeSampler>,
    ) -> NativeDriver {
        let (from, to) = (flow.from.clone(), flow.to.clone());
        NativeDriver {
            round,
            from,
            to,
            leases,
            sampler,
            limit_bit_s: 0,
            id: Uuid::nil(),
            last_sample: None,
            waited_for: String::new(),
        }
    }

    /// The API of the source for the holder of its scratch place, as it is now.
    fn api(&self) -> Result<nodeapi::Api, String> {
        self.leases.place_api(&self.from).ok_or_else(|| format!("{} has no scratch place", self.from))
    }

    /// The end of a round that its node has forgotten.
    fn forgotten(&mut self) -> RoundSample {
        self.sampler.leave(self.id);
        self.id = Uuid::nil();
        let error = format!("the node of {} has forgotten the transfer; was it restarted?", self.from);
        RoundSample { end: Some(RoundEnd::failed(error)), ..RoundSample::default() }
    }

    fn end(&self, transfer: &Transfer) -> RoundEnd {
        let receipt = self.api().ok().and_then(|api| api.receipt(transfer.id).ok());
        let verdict = receipt.as_ref().map_or_else(String::new, |receipt| {
            format!("{}: {}", receipt.limited_by.part, receipt.limited_by.evidence)
        });
        RoundEnd {
            state: transfer.state.word().to_owned(),
            failed: transfer.failed.unwrap_or(0),
            verdict,
            // A transfer that is cancelled while it waits has no error of its own.
            error: transfer.error.clone().or_else(|| Some(self.waited_for.clone()).filter(|what| !what.is_empty())),
            seconds: receipt.as_ref().map(|receipt| receipt.seconds),
            ..RoundEnd::default()
        }
    }
}

impl RoundDriver for NativeDriver {
    fn begin(&mut self) -> Result<(), String> {
        self.id = Uuid::now_v7();
        let order = Order {
            options: Options { recursive: self.round.is_tree, sync: Some("none".to_owned()), ..Options::default() },
            limit_bit_s: self.limit_bit_s,
            streams: self.round.streams.unwrap_or(0),
            scitag: self.round.scitag,
            retry_for_s: Some(RETRY_FOR_S),
            credentials: Some(Credentials { key: Some(self.leases.key(&self.to)), ..Credentials::default() }),
            ..Order::new(self.id, &*self.round.source, &*self.round.target)
        };
        self.last_sample = None;
        self.waited_for.clear();
        self.api()?.create_transfer(&order).map(drop).map_err(|error| error.to_string())?;
        self.sampler.follow(self.id);
        Ok(())
    }

    fn sample(&mut self) -> Result<Option<RoundSample>, String> {
        let transfer = match self.sampler.transfer(self.id) {
            TransferSample::Known(at, transfer) if self.last_sample != Some(at) => {
                self.last_sample = Some(at);
                transfer
            }
            TransferSample::Known(..) | TransferSample::Awaited => return self.sampler.error().map_or(Ok(None), Err),
            TransferSample::Forgotten => return Ok(Some(self.forgotten())),
        };
        if !transfer.state.is_last() {
            self.waited_for.clone_from(&transfer.waiting_for);
        }
        let end = transfer.state.is_last().then(|| self.end(&transfer));
        if end.is_some() {
            self.sampler.leave(self.id);
            self.id = Uuid::nil();
        }
        let Transfer { bytes, files, waiting_for, .. } = *transfer;
        Ok(Some(RoundSample { bytes, files, waiting_for, end }))
    }

    fn limit(&mut self, limit_bit_s: u64) -> Result<(), String> {
        self.limit_bit_s = limit_bit_s;
        if self.id.is_nil() {
            return Ok(());
        }
        let change = Change { limit_bit_s: Some(limit_bit_s), ..Change::default() };
        self.api()?.change_transfer(self.id, &change).map(drop).map_err(|error| error.to_string())
    }

    fn cancel(&mut self) {
        if self.id.is_nil() {
            return;
        }
        let cancelled = self.api().and_then(|api| api.cancel_transfer(self.id).map_err(|error| error.to_string()));
        if let Err(error) = cancelled {
            tracing::warn!(error, transfer = %self.id, "a transfer cannot be cancelled; it ends with its scratch place");
        }
    }
}
