//! Runs the transfers of the files that the scheduler has claimed: orders each transfer at a node by the node's API, or as a copy between
//! two servers, and follows it to its end.

mod locators;
mod order;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authn::Credentials as _;
use model::v1::hub::Endpoint;
use model::v1::node::{FileResult, Order, Problem};
use model::v1::{Change, Stage, Transfer};
use nodeapi::{Api, Error};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::{mpsc, watch};
use web::client::Guard;
use web::{Dialer, HttpUrl};

use self::locators::ends;
pub use self::order::can_share_transfer;
use self::order::{LIMIT_HOLDS_S, bits, non_empty, order};
use crate::database::claims::Claim;
use crate::database::delegations::Delegation;
use crate::delegated;
use crate::progress::{TransferControl, TransferReport, TransferResult};
use crate::servers::{CONNECT, SILENCE, origin};
use crate::state::HubState;
use crate::third_party::{self, ThirdPartyEnd};

/// How often the state of a transfer is read, and how often when the transfer is about to end.
const POLL_EVERY: Duration = Duration::from_millis(500);
const POLL_AT_END: Duration = Duration::from_millis(100);
/// How long requests to a node that does not answer are repeated. Its transfer goes on meanwhile.
const SILENT_MAX: Duration = Duration::from_secs(600);
/// The shortest transfer whose limit is reported, seconds: a shorter one says little about what limited it.
const LIMIT_REPORT_MIN_S: f64 = 5.0;
/// The most files in one answer of a node.
const FILES_PAGE: usize = 1000;
/// How often an unchanged limit is sent again: a node keeps it for [`LIMIT_HOLDS_S`].
const LIMIT_AGAIN: Duration = Duration::from_secs(60);
/// A limit is sent again only if it changes by more than this part.
const LIMIT_CHANGE: f64 = 0.01;

/// A node that does not answer may have a transfer that the hub has given up: the pause between two requests to cancel it, and the most
/// requests.
const ABANDON_EVERY: Duration = Duration::from_secs(2);
const ABANDON_TRIES: u32 = 300;

/// The carrier of a copy that two servers make between themselves. No endpoint has this name.
pub const THIRD_PARTY_CARRIER: &str = "(third-party copy)";

/// Runs transfers at nodes and between servers.
pub struct Carriers {
    hub: Arc<HubState>,
}

impl Carriers {
    /// The carriers of a hub.
    pub fn new(hub: Arc<HubState>) -> Carriers {
        Carriers { hub }
    }

    /// Runs the transfer of a claim, and reports its progress until it has ended.
    pub async fn run_transfer(
        &self,
        claim: Claim,
        control: watch::Receiver<TransferControl>,
        reports: mpsc::Sender<TransferReport>,
    ) {
        if claim.carrier == THIRD_PARTY_CARRIER {
            let result = self.third_party(&claim, control, &reports).await;
            let _ = reports.send(TransferReport::Ended { transfer: claim.number, result }).await;
            return;
        }
        let result = match self.api(&claim) {
            Err(reason) => TransferResult::Failed { fault: "config".into(), reason },
            Ok(api) => self.order_and_follow(&api, &claim, control, &reports).await,
        };
        let _ = reports.send(TransferReport::Ended { transfer: claim.number, result }).await;
    }

    /// Orders a transfer at the node of its claim. `limit` is in bytes per second.
    async fn begin(&self, api: &Api, claim: &Claim, limit: f64) -> Result<Transfer, TransferResult> {
        let order = order(&self.hub.topology.load(), claim, limit);
        let mut order = order.map_err(|reason| TransferResult::Failed { fault: "config".into(), reason })?;
        self.add_proxy(claim, &mut order).await?;
        // Some files of a transfer that is resumed may have ended. It is not ordered again: the files that are left would have other
        // indices.
        let (id, is_whole) = (claim.id, claim.is_whole());
        let begun = ask(
            api,
            move |api| if is_whole { create(api, &order) } else { api.transfer(id).map_err(as_lost_transfer) },
        );
        begun.await.map_err(|error| {
            if matches!(error, Error::Connection(_)) {
                // The node may have received the order although its answer was lost.
                abandon(api.clone(), id);
            }
            refused(error)
        })
    }

    async fn order_and_follow(
        &self,
        api: &Api,
        claim: &Claim,
        mut control: watch::Receiver<TransferControl>,
        reports: &mpsc::Sender<TransferReport>,
    ) -> TransferResult {
        let mut sent_limit = control.borrow_and_update().limit;
        let id = claim.id;
        match self.begin(api, claim, sent_limit).await {
            Ok(transfer) if transfer.state.is_last() => {
                self.report_files(api, claim, &mut 0, reports).await;
                return result_of(api, &transfer).await;
            }
            Ok(_) => {}
            Err(ended) => return ended,
        }
        let mut silent = Duration::ZERO;
        let mut next_file = 0;
        let mut limit_sent_at = Instant::now();
        let mut poll_after = POLL_EVERY;
        loop {
            tokio::select! {
                () = tokio::time::sleep(poll_after) => {}
                changed = control.changed() => if changed.is_err() { return TransferResult::Unreachable { reason: "the hub is stopping".into() } },
            }
            let TransferControl { limit: wanted, is_cancelled } = *control.borrow_and_update();
            if is_cancelled {
                // This or the next read of the state shows the result.
                let _ = ask(api, move |api| api.cancel_transfer(id)).await;
            }
            if differs(sent_limit, wanted) || wanted.is_finite() && limit_sent_at.elapsed() >= LIMIT_AGAIN {
                let (limit_bit_s, limit_for_s) = (Some(bits(wanted)), Some(LIMIT_HOLDS_S));
                let change = Change { limit_bit_s, limit_for_s, ..Change::default() };
                if ask(api, move |api| api.change_transfer(id, &change)).await.is_ok() {
                    sent_limit = wanted;
                    limit_sent_at = Instant::now();
                }
            }
            match ask(api, move |api| api.transfer(id)).await {
                Ok(transfer) if transfer.state.is_last() => {
                    self.report_files(api, claim, &mut next_file, reports).await;
                    report_limit(api, claim.number, &transfer, reports).await;
                    return result_of(api, &transfer).await;
                }
                Ok(transfer) => {
                    self.report_files(api, claim, &mut next_file, reports).await;
                    silent = Duration::ZERO;
                    poll_after = poll_delay(&transfer);
                    let rate = transfer.rate_bit_s as f64 / 8.0;
                    let _ = reports
                        .send(TransferReport::Moving { transfer: claim.number, rate, bytes: transfer.bytes })
                        .await;
                }
                Err(Error::Connection(error)) => {
                    poll_after = POLL_EVERY;
                    silent += POLL_EVERY;
                    if silent > SILENT_MAX {
                        abandon(api.clone(), id);
                        let reason =
                            format!("{} has not answered for {} s: {error}", claim.carrier, SILENT_MAX.as_secs());
                        return TransferResult::Unreachable { reason };
                    }
                    tokio::time::sleep(POLL_EVERY * 4).await;
                    silent += POLL_EVERY * 4;
                }
                Err(error) => return refused(as_lost_transfer(error)),
            }
        }
    }

    /// Copies a file between two servers that are not nodes. The hub cannot limit the rate of a copy, only the number of copies at once.
    async fn third_party(
        &self,
        claim: &Claim,
        control: watch::Receiver<TransferControl>,
        reports: &mpsc::Sender<TransferReport>,
    ) -> TransferResult {
        let Some(file) = claim.files.first().cloned() else { return TransferResult::Cancelled };
        let options = third_party::ThirdPartyOptions {
            replace: file.overwrites(),
            expected: file.expected(),
            scitag: file.options().scitag,
        };
        let from = self.end(&file.source, &file.tokens.source);
        let to = self.end(&file.target, &file.tokens.target);
        let has_keys = from.endpoint.key.is_some() && to.endpoint.key.is_some();
        let proxy = match delegated::of_job(&self.hub.database, file.job, has_keys).await {
            Ok(proxy) => proxy,
            Err(reason) => return TransferResult::Failed { fault: "auth".into(), reason },
        };
        let tls = match proxy.as_ref().map(|proxy| self.tls_with(proxy)) {
            None => Arc::clone(self.hub.servers.tls()),
            Some(Ok(tls)) => tls,
            Some(Err(reason)) => return TransferResult::Failed { fault: "auth".into(), reason },
        };
        let reports = reports.clone();
        let transfer = claim.number;
        let copied = tokio::task::spawn_blocking(move || {
            let before = Mutex::new((Instant::now(), 0u64));
            let progress = |bytes: u64| {
                let mut before = before.lock();
                let seconds = before.0.elapsed().as_secs_f64().max(1e-3);
                let rate = bytes.saturating_sub(before.1) as f64 / seconds;
                *before = (Instant::now(), bytes);
                let _ = reports.try_send(TransferReport::Moving { transfer, rate, bytes });
                // The control's sender is dropped when the hub stops.
                control.has_changed().is_ok() && !control.borrow().is_cancelled
            };
            third_party::copy(&from, &to, &options, &tls, &progress)
        });
        copied
            .await
            .unwrap_or_else(|error| TransferResult::Unreachable { reason: format!("the copy broke off: {error}") })
    }

    /// TLS settings with a delegated proxy as the client certificate.
    fn tls_with(&self, proxy: &Delegation) -> Result<Arc<ClientConfig>, String> {
        let certificate = delegated::certificate(proxy)?;
        self.hub.servers.tls_with(certificate)
    }

    /// Adds the proxy that was delegated for a claim to its order, if the other end is a server that may ask the node for one. Only a node
    /// that an admin has described gets a proxy.
    async fn add_proxy(&self, claim: &Claim, order: &mut Order) -> Result<(), TransferResult> {
        let topology = self.hub.topology.load_full();
        let Some(file) = claim.files.first() else { return Ok(()) };
        let (source, target) = ends(&topology, &claim.carrier, file);
        let is_dav = |url: &String| ["https://", "davs://"].iter().any(|scheme| url.starts_with(scheme));
        if ![&source, &target].into_iter().any(is_dav) || topology.described_endpoint(&claim.carrier).is_none() {
            return Ok(());
        }
        let has_key = order.credentials.is_some();
        let proxy = delegated::of_job(&self.hub.database, file.job, has_key).await;
        let proxy = proxy.map_err(|reason| TransferResult::Failed { fault: "auth".into(), reason })?;
        if let Some(proxy) = proxy {
            order.credentials.get_or_insert_default().certificate = Some(delegated::pem(&proxy));
        }
        Ok(())
    }

    /// One end of a copy between servers, with the token of the submission for it.
    fn end(&self, url: &str, token: &str) -> ThirdPartyEnd {
        let topology = self.hub.topology.load();
        let name = topology.endpoint(url).unwrap_or_default();
        let endpoint = topology.described_endpoint(&name).cloned();
        let guard = self.guard(endpoint.is_some());
        let mut endpoint = endpoint.unwrap_or_default();
        endpoint.key = non_empty(token).or(endpoint.key);
        ThirdPartyEnd { url: url.to_owned(), endpoint, guard }
    }

    /// The check of the addresses that the hub connects to. An admin who describes an endpoint may name any address; for an endpoint that a
    /// user only names in a URL the policy decides.
    fn guard(&self, is_described: bool) -> Arc<Guard> {
        if is_described {
            return Arc::new(|_| Ok(()));
        }
        let rules = self.hub.credentials.policy().third_party.clone();
        Arc::new(move |address: &SocketAddr| {
            rules.check(address.ip(), &sys::addresses::is_own).map_err(|denied| denied.to_string())
        })
    }

    /// Reports the files that have ended since the last call; `next` is the position in the node's list. If the node does not answer, they
    /// are reported by a later call or with the end of the transfer.
    async fn report_files(&self, api: &Api, claim: &Claim, next: &mut u64, reports: &mpsc::Sender<TransferReport>) {
        if claim.order.len() < 2 {
            return;
        }
        let id = claim.id;
        loop {
            let after = *next;
            let Ok(page) = ask(api, move |api| api.files(id, after, FILES_PAGE)).await else { return };
            *next = page.next;
            if page.next < after {
                // A node that has been restarted lists its files from the beginning.
                continue;
            }
            let is_last = page.files.len() < FILES_PAGE;
            let file = |outcome: &FileResult| {
                let file = claim.order.get(usize::try_from(outcome.index).ok()?)?;
                Some((*file, file_result(outcome)))
            };
            let files: Vec<(i64, TransferResult)> = page.files.iter().filter_map(file).collect();
            if !files.is_empty() {
                let _ = reports.send(TransferReport::Files { transfer: claim.number, files }).await;
            }
            if is_last {
                return;
            }
        }
    }

    /// The API of the node that carries a claim. If the hub has no key of the node, it sends the token of the file.
    fn api(&self, claim: &Claim) -> Result<Api, String> {
        let name = claim.carrier.as_str();
        let topology = self.hub.topology.load();
        let unknown = Endpoint::default();
        let endpoint = topology.described_endpoint(name).unwrap_or(&unknown);
        let origin = match &endpoint.api {
            Some(api) => api.clone(),
            None => origin(endpoint.urls.first().map_or(name, String::as_str))
                .ok_or_else(|| format!("{name} has no URL of a node: lh://HOST[:PORT]/"))?,
        };
        let origin = HttpUrl::parse(&origin).map_err(|error| format!("the API of {name}: {error}"))?;
        let tls = self.hub.servers.trust(endpoint)?;
        let guard = self.guard(topology.described_endpoint(name).is_some());
        let dialer = Dialer { tls, guard, prepare: None, connect: CONNECT, silence: SILENCE };
        let file_token = claim.files.first().and_then(|file| {
            let is_source = topology.endpoint(&file.source).as_deref() == Some(name);
            non_empty(if is_source { &file.tokens.source } else { &file.tokens.target })
        });
        let bearer = endpoint.key.clone().or(file_token).map(|key| format!("Bearer {key}"));
        Ok(Api::new(dialer, origin, bearer.as_deref()))
    }
}

/// Sends a request to a node, on a thread that may block.
async fn ask<T, F>(api: &Api, request: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(&Api) -> Result<T, Error> + Send + 'static,
{
    let api = api.clone();
    let result = tokio::task::spawn_blocking(move || request(&api)).await;
    result
        .unwrap_or_else(|error| Err(Error::Protocol { server: "node", why: format!("the request broke off: {error}") }))
}

/// Cancels a transfer that the node may or may not have accepted. Its files are tried again in another transfer.
fn abandon(api: Api, id: uuid::Uuid) {
    tokio::spawn(async move {
        for _ in 0..ABANDON_TRIES {
            match ask(&api, move |api| api.cancel_transfer(id)).await {
                Err(Error::Connection(_)) => tokio::time::sleep(ABANDON_EVERY).await,
                _ => return,
            }
        }
    });
}

/// Orders a transfer. A conflict (409) means that an earlier hub has ordered the same transfer with another limit: this hub follows that
/// transfer.
fn create(api: &Api, order: &Order) -> Result<Transfer, Error> {
    match api.create_transfer(order) {
        Err(Error::Refused { problem, .. }) if problem.status == 409 => {
            api.transfer(order.id).map_err(as_lost_transfer)
        }
        other => other.map(|(transfer, _)| transfer),
    }
}

fn differs(now: f64, wanted: f64) -> bool {
    match (now.is_finite(), wanted.is_finite()) {
        (true, true) => (now - wanted).abs() > LIMIT_CHANGE * now,
        (false, false) => false,
        _ => true,
    }
}

/// The result of a file, from the node's report.
fn file_result(outcome: &FileResult) -> TransferResult {
    if outcome.done {
        TransferResult::Done { bytes: outcome.bytes }
    } else {
        TransferResult::Failed {
            fault: outcome.fault.clone().unwrap_or_else(|| "peer".to_owned()),
            reason: outcome.error.clone().unwrap_or_else(|| "the node does not say why".to_owned()),
        }
    }
}

/// The pause before the state of a transfer is read again: until its expected end, if the node gives one.
fn poll_delay(transfer: &Transfer) -> Duration {
    let eta = transfer.eta_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    eta.unwrap_or(POLL_EVERY).clamp(POLL_AT_END, POLL_EVERY)
}

/// Reports what limited a transfer, unless the transfer was too short.
async fn report_limit(api: &Api, number: i64, transfer: &Transfer, reports: &mpsc::Sender<TransferReport>) {
    let id = transfer.id;
    if transfer.seconds < LIMIT_REPORT_MIN_S {
        return;
    }
    // Without a receipt nothing is reported; the transfer has ended all the same.
    if let Ok(receipt) = ask(api, move |api| api.receipt(id)).await {
        let mut by = receipt.limited_by;
        if by.part == "cap" {
            // The hub itself has set this limit.
            "the transfer used its whole share of the rate: `longhaul queue show` says who has the rest"
                .clone_into(&mut by.remedy);
        }
        let _ = reports.send(TransferReport::Limited { transfer: number, by }).await;
    }
}

/// The result of a transfer that has ended at its node. The receipt says what failed, and whose fault it was.
async fn result_of(api: &Api, transfer: &Transfer) -> TransferResult {
    match transfer.state {
        Stage::Done => return TransferResult::Done { bytes: transfer.bytes },
        Stage::Cancelled => return TransferResult::Cancelled,
        _ => {}
    }
    let id = transfer.id;
    let receipt = ask(api, move |api| api.receipt(id)).await.ok();
    let failure = receipt.as_ref().and_then(|receipt| receipt.failures.first());
    let fault = failure.map_or_else(|| fault_of(transfer.exit).to_owned(), |failure| failure.fault.clone());
    let reason = failure.map(|failure| failure.reason.clone()).or_else(|| transfer.error.clone());
    TransferResult::Failed { fault, reason: reason.unwrap_or_else(|| "the node does not say why".to_owned()) }
}

/// The fault that goes with an exit code.
fn fault_of(exit: Option<u8>) -> &'static str {
    match exit {
        Some(4) => "auth",
        Some(5) => "path",
        Some(6) => "storage",
        Some(7) => "integrity",
        Some(2) => "config",
        _ => "peer",
    }
}

/// The error when a node does not know a transfer any more (404): a fault of the node, so that the files are tried again. The next transfer
/// finds those that have arrived.
fn as_lost_transfer(error: Error) -> Error {
    match error {
        Error::Refused { server, problem } if problem.status == 404 => {
            let reason = "it does not know the transfer any more".to_owned();
            Error::Refused { server, problem: Problem { fault: "peer".to_owned(), reason, ..problem } }
        }
        other => other,
    }
}

/// The result of a transfer that the node refused, or whose node could not be reached.
fn refused(error: Error) -> TransferResult {
    match error {
        Error::Refused { problem, .. } if problem.status == 503 => {
            TransferResult::Unreachable { reason: problem.reason }
        }
        Error::Refused { problem, .. } => TransferResult::Failed { fault: problem.fault, reason: problem.reason },
        other => TransferResult::Unreachable { reason: model::fault::with_causes(&other) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_the_node_does_not_know_is_no_missing_file() {
        let problem = Problem { title: String::new(), status: 404, fault: "missing".into(), reason: "x".into() };
        let finished = refused(as_lost_transfer(Error::Refused { server: "node", problem }));
        assert!(matches!(finished, TransferResult::Failed { fault, .. } if fault == "peer"));
    }

    #[test]
    fn a_transfer_is_polled_more_often_when_it_is_about_to_end() {
        let delay = |eta_s| poll_delay(&Transfer { eta_s, ..Transfer::default() });
        assert_eq!((delay(None), delay(Some(1e300)), delay(Some(-1.0))), (POLL_EVERY, POLL_EVERY, POLL_EVERY));
        assert_eq!((delay(Some(0.0)), delay(Some(0.25))), (POLL_AT_END, Duration::from_millis(250)));
    }

    #[test]
    fn a_limit_is_sent_again_only_when_it_differs() {
        assert!(!differs(f64::INFINITY, f64::INFINITY) && differs(f64::INFINITY, 1.0) && differs(1.0, f64::INFINITY));
        assert!(!differs(100.0, 100.5) && differs(100.0, 102.0));
        assert_eq!((bits(f64::INFINITY), bits(1e6), bits(0.0)), (0, 8_000_000, 8_000));
    }
}
