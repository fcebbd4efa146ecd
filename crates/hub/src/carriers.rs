//! Runs the transfers of claims: orders each at a node by the node's API, or between two servers, and follows it to its end.

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
pub use self::order::go_together;
use self::order::{LIMIT_HOLDS_S, bits, given, order};
use crate::database::claims::Claim;
use crate::database::delegations::Delegation;
use crate::delegated;
use crate::progress::{Finished, TransferControl, TransferReport};
use crate::servers::{CONNECT, SILENCE, origin};
use crate::state::HubState;
use crate::third_party::{self, ThirdPartyEnd};

/// How often the state of a transfer is asked for, and how often when it is about to end.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOK_AT_THE_END: Duration = Duration::from_millis(100);
/// How long a node that does not answer is asked again. Its transfer goes on meanwhile.
const SILENT_MAX: Duration = Duration::from_secs(600);
/// A shorter transfer says little about what held it back.
const LIMITED_AFTER_S: f64 = 5.0;
/// Files of one answer.
const FILES_PAGE: usize = 1000;
/// How often an unchanged limit is sent again: a node keeps it for [`LIMIT_HOLDS_S`].
const LIMIT_AGAIN: Duration = Duration::from_secs(60);
/// A limit that changes by less than this part is not worth a request.
const LIMIT_CHANGE: f64 = 0.01;

/// The pause between two requests to a silent node to end a transfer that it may have, and how many requests are sent.
const ABANDON_EVERY: Duration = Duration::from_secs(2);
const ABANDON_TRIES: u32 = 300;

/// Stands for a carrier where two servers copy between themselves. No endpoint has this name.
pub const THIRD_PARTY: &str = "(third-party copy)";

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
    pub async fn carry(
        &self,
        claim: Claim,
        steer: watch::Receiver<TransferControl>,
        told: mpsc::Sender<TransferReport>,
    ) {
        if claim.carrier == THIRD_PARTY {
            let finished = self.third_party(&claim, steer, &told).await;
            let _ = told.send(TransferReport::Ended { transfer: claim.number, finished }).await;
            return;
        }
        let finished = match self.api(&claim) {
            Err(reason) => Finished::Failed { fault: "config".into(), reason },
            Ok(api) => self.order_and_watch(&api, &claim, steer, &told).await,
        };
        let _ = told.send(TransferReport::Ended { transfer: claim.number, finished }).await;
    }

    /// Orders a transfer at the node that is to carry it.
    async fn begin(&self, api: &Api, claim: &Claim, limit: f64) -> Result<Transfer, Finished> {
        let order = order(&self.hub.topology.load(), claim, limit);
        let mut order = order.map_err(|reason| Finished::Failed { fault: "config".into(), reason })?;
        self.lend_proxy(claim, &mut order).await?;
        // Some files of a transfer that is taken up again may have ended. It is not ordered anew: the others would be at wrong positions.
        let (id, is_whole) = (claim.id, claim.is_whole());
        let begun =
            ask(api, move |api| if is_whole { create(api, &order) } else { api.transfer(id).map_err(forgotten) });
        begun.await.map_err(|error| {
            if matches!(error, Error::Line(_)) {
                // The order may have arrived, and its answer not.
                abandon(api.clone(), id);
            }
            refused(error)
        })
    }

    async fn order_and_watch(
        &self,
        api: &Api,
        claim: &Claim,
        mut steer: watch::Receiver<TransferControl>,
        told: &mpsc::Sender<TransferReport>,
    ) -> Finished {
        let mut limited = steer.borrow_and_update().limit;
        let id = claim.id;
        match self.begin(api, claim, limited).await {
            Ok(transfer) if transfer.state.is_last() => {
                self.hear_files(api, claim, &mut 0, told).await;
                return finished(api, &transfer).await;
            }
            Ok(_) => {}
            Err(ended) => return ended,
        }
        let mut silent = Duration::ZERO;
        let mut heard = 0;
        let mut limited_at = Instant::now();
        let mut look_after = LOOK_EVERY;
        loop {
            tokio::select! {
                () = tokio::time::sleep(look_after) => {}
                changed = steer.changed() => if changed.is_err() { return Finished::Unreachable { reason: "the hub is stopping".into() } },
            }
            let TransferControl { limit: wanted, is_cancelled } = *steer.borrow_and_update();
            if is_cancelled {
                // The state that is read below, or the next time, shows the result.
                let _ = ask(api, move |api| api.cancel(id)).await;
            }
            if differs(limited, wanted) || wanted.is_finite() && limited_at.elapsed() >= LIMIT_AGAIN {
                let (limit_bit_s, limit_for_s) = (Some(bits(wanted)), Some(LIMIT_HOLDS_S));
                let change = Change { limit_bit_s, limit_for_s, ..Change::default() };
                if ask(api, move |api| api.change(id, &change)).await.is_ok() {
                    (limited, limited_at) = (wanted, Instant::now());
                }
            }
            match ask(api, move |api| api.transfer(id)).await {
                Ok(transfer) if transfer.state.is_last() => {
                    self.hear_files(api, claim, &mut heard, told).await;
                    hear_limit(api, claim.number, &transfer, told).await;
                    return finished(api, &transfer).await;
                }
                Ok(transfer) => {
                    self.hear_files(api, claim, &mut heard, told).await;
                    silent = Duration::ZERO;
                    look_after = until_its_end(&transfer);
                    let rate = transfer.rate_bit_s as f64 / 8.0;
                    let _ =
                        told.send(TransferReport::Moving { transfer: claim.number, rate, bytes: transfer.bytes }).await;
                }
                Err(Error::Line(error)) => {
                    look_after = LOOK_EVERY;
                    silent += LOOK_EVERY;
                    if silent > SILENT_MAX {
                        abandon(api.clone(), id);
                        let reason =
                            format!("{} has not answered for {} s: {error}", claim.carrier, SILENT_MAX.as_secs());
                        return Finished::Unreachable { reason };
                    }
                    tokio::time::sleep(LOOK_EVERY * 4).await;
                    silent += LOOK_EVERY * 4;
                }
                Err(error) => return refused(forgotten(error)),
            }
        }
    }

    /// Copies a file between two servers that are no nodes. The rate of a copy cannot be set, only the number of copies at once.
    async fn third_party(
        &self,
        claim: &Claim,
        steer: watch::Receiver<TransferControl>,
        told: &mpsc::Sender<TransferReport>,
    ) -> Finished {
        let Some(file) = claim.files.first().cloned() else { return Finished::Cancelled };
        let (replace, expected, scitag) = (file.overwrites(), file.expected(), file.options().scitag);
        let wanted = third_party::ThirdPartyOptions { replace, expected, scitag };
        let from = self.end(&file.source, &file.tokens.source);
        let to = self.end(&file.target, &file.tokens.target);
        let has_keys = from.endpoint.key.is_some() && to.endpoint.key.is_some();
        let proxy = match delegated::of_job(&self.hub.database, file.job, has_keys).await {
            Ok(proxy) => proxy,
            Err(reason) => return Finished::Failed { fault: "auth".into(), reason },
        };
        let tls = match proxy.as_ref().map(|proxy| self.tls_with(proxy)) {
            None => Arc::clone(self.hub.servers.tls()),
            Some(Ok(tls)) => tls,
            Some(Err(reason)) => return Finished::Failed { fault: "auth".into(), reason },
        };
        let (told, transfer) = (told.clone(), claim.number);
        let copied = tokio::task::spawn_blocking(move || {
            let before = Mutex::new((Instant::now(), 0u64));
            let progress = |bytes: u64| {
                let mut before = before.lock();
                let seconds = before.0.elapsed().as_secs_f64().max(1e-3);
                let rate = bytes.saturating_sub(before.1) as f64 / seconds;
                *before = (Instant::now(), bytes);
                let _ = told.try_send(TransferReport::Moving { transfer, rate, bytes });
                // The sender of the control is gone when the hub is stopping.
                steer.has_changed().is_ok() && !steer.borrow().is_cancelled
            };
            third_party::copy(&from, &to, &wanted, &tls, &progress)
        });
        copied.await.unwrap_or_else(|error| Finished::Unreachable { reason: format!("the copy broke off: {error}") })
    }

    /// TLS settings with a delegated proxy as the client certificate.
    fn tls_with(&self, proxy: &Delegation) -> Result<Arc<ClientConfig>, String> {
        let certificate = delegated::certificate(proxy)?;
        self.hub.servers.tls_with(certificate)
    }

    /// Lends the node that carries a claim the proxy that was delegated for it, where the other end is a server that may ask for one. Only a
    /// node that an admin has described is trusted with it.
    async fn lend_proxy(&self, claim: &Claim, order: &mut Order) -> Result<(), Finished> {
        let topology = self.hub.topology.load_full();
        let Some(file) = claim.files.first() else { return Ok(()) };
        let (source, target) = ends(&topology, &claim.carrier, file);
        let is_dav = |url: &String| ["https://", "davs://"].iter().any(|scheme| url.starts_with(scheme));
        if ![&source, &target].into_iter().any(is_dav) || topology.described_endpoint(&claim.carrier).is_none() {
            return Ok(());
        }
        let has_key = order.credentials.is_some();
        let proxy = delegated::of_job(&self.hub.database, file.job, has_key).await;
        let proxy = proxy.map_err(|reason| Finished::Failed { fault: "auth".into(), reason })?;
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
        endpoint.key = given(token).or(endpoint.key);
        ThirdPartyEnd { url: url.to_owned(), endpoint, guard }
    }

    /// Which addresses are dialled. An admin who describes an endpoint may send the hub anywhere; a user who only names one may not, and the
    /// policy says where to.
    fn guard(&self, is_described: bool) -> Arc<Guard> {
        if is_described {
            return Arc::new(|_| Ok(()));
        }
        let rules = self.hub.credentials.policy().third_party.clone();
        Arc::new(move |address: &SocketAddr| {
            rules.check(address.ip(), &sys::addresses::is_own).map_err(|denied| denied.to_string())
        })
    }

    /// Reports the files that have ended since the last call. Where the node does not answer, they are reported by a later call or with the
    /// end of the transfer.
    async fn hear_files(&self, api: &Api, claim: &Claim, heard: &mut u64, told: &mpsc::Sender<TransferReport>) {
        if claim.order.len() < 2 {
            return;
        }
        let id = claim.id;
        loop {
            let after = *heard;
            let Ok(page) = ask(api, move |api| api.files(id, after, FILES_PAGE)).await else { return };
            *heard = page.next;
            if page.next < after {
                // A node that has been restarted lists its files from the beginning.
                continue;
            }
            let is_last = page.files.len() < FILES_PAGE;
            let file = |outcome: &FileResult| {
                let file = claim.order.get(usize::try_from(outcome.index).ok()?)?;
                Some((*file, of_file(outcome)))
            };
            let files: Vec<(i64, Finished)> = page.files.iter().filter_map(file).collect();
            if !files.is_empty() {
                let _ = told.send(TransferReport::Files { transfer: claim.number, files }).await;
            }
            if is_last {
                return;
            }
        }
    }

    /// The API of the node that carries a claim. Without a key of the node, the hub shows the token of the file.
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
        let of_file = claim.files.first().and_then(|file| {
            let is_read_here = topology.endpoint(&file.source).as_deref() == Some(name);
            given(if is_read_here { &file.tokens.source } else { &file.tokens.target })
        });
        let bearer = endpoint.key.clone().or(of_file).map(|key| format!("Bearer {key}"));
        Ok(Api::new(dialer, origin, bearer.as_deref()))
    }
}

/// Asks a node on a thread that may block.
async fn ask<T, F>(api: &Api, question: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: FnOnce(&Api) -> Result<T, Error> + Send + 'static,
{
    let api = api.clone();
    let asked = tokio::task::spawn_blocking(move || question(&api)).await;
    asked.unwrap_or_else(|error| {
        Err(Error::Protocol { server: "node", why: format!("the question broke off: {error}") })
    })
}

/// Ends a transfer that the node may or may not have accepted. Its files are tried again under another id.
fn abandon(api: Api, id: uuid::Uuid) {
    tokio::spawn(async move {
        for _ in 0..ABANDON_TRIES {
            match ask(&api, move |api| api.cancel(id)).await {
                Err(Error::Line(_)) => tokio::time::sleep(ABANDON_EVERY).await,
                _ => return,
            }
        }
    });
}

/// Orders a transfer. A conflict (409) is the same transfer, which an earlier hub has ordered with another limit: it is taken over.
fn create(api: &Api, order: &Order) -> Result<Transfer, Error> {
    match api.create(order) {
        Err(Error::Refused { problem, .. }) if problem.status == 409 => api.transfer(order.id).map_err(forgotten),
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
fn of_file(outcome: &FileResult) -> Finished {
    if outcome.done {
        Finished::Done { bytes: outcome.bytes }
    } else {
        Finished::Failed {
            fault: outcome.fault.clone().unwrap_or_else(|| "peer".to_owned()),
            reason: outcome.error.clone().unwrap_or_else(|| "the node does not say why".to_owned()),
        }
    }
}

/// The pause before a transfer is asked for again: until its expected end, where the node gives one.
fn until_its_end(transfer: &Transfer) -> Duration {
    let told = transfer.eta_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    told.unwrap_or(LOOK_EVERY).clamp(LOOK_AT_THE_END, LOOK_EVERY)
}

/// Reports what limited a transfer, if it took long enough to tell.
async fn hear_limit(api: &Api, number: i64, transfer: &Transfer, told: &mpsc::Sender<TransferReport>) {
    let id = transfer.id;
    if transfer.seconds < LIMITED_AFTER_S {
        return;
    }
    // Without a receipt nothing is reported; the transfer has ended all the same.
    if let Ok(receipt) = ask(api, move |api| api.receipt(id)).await {
        let mut by = receipt.limited_by;
        if by.part == "cap" {
            // The limit in the receipt is the one that the hub has set.
            "it is its share of what may be used: `longhaul queue show` says who has the rest"
                .clone_into(&mut by.remedy);
        }
        let _ = told.send(TransferReport::Limited { transfer: number, by }).await;
    }
}

/// The result of a transfer that has ended at its node. The receipt says what failed, and whose fault it was.
async fn finished(api: &Api, transfer: &Transfer) -> Finished {
    match transfer.state {
        Stage::Done => return Finished::Done { bytes: transfer.bytes },
        Stage::Cancelled => return Finished::Cancelled,
        _ => {}
    }
    let id = transfer.id;
    let receipt = ask(api, move |api| api.receipt(id)).await.ok();
    let miss = receipt.as_ref().and_then(|receipt| receipt.failures.first());
    let fault = miss.map_or_else(|| fault_of(transfer.exit).to_owned(), |miss| miss.fault.clone());
    let reason = miss.map(|miss| miss.reason.clone()).or_else(|| transfer.error.clone());
    Finished::Failed { fault, reason: reason.unwrap_or_else(|| "the node does not say why".to_owned()) }
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

/// The result where a node does not know a transfer any more: its files are tried again, and those that have arrived are found in place.
fn forgotten(error: Error) -> Error {
    match error {
        Error::Refused { server, problem } if problem.status == 404 => {
            let reason = "it does not know the transfer any more".to_owned();
            Error::Refused { server, problem: Problem { fault: "peer".to_owned(), reason, ..problem } }
        }
        other => other,
    }
}

fn refused(error: Error) -> Finished {
    match error {
        Error::Refused { problem, .. } if problem.status == 503 => Finished::Unreachable { reason: problem.reason },
        Error::Refused { problem, .. } => Finished::Failed { fault: problem.fault, reason: problem.reason },
        other => Finished::Unreachable { reason: model::fault::with_causes(&other) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_a_node_forgot_is_not_a_file_that_is_missing() {
        let problem = Problem { title: String::new(), status: 404, fault: "missing".into(), reason: "x".into() };
        let finished = refused(forgotten(Error::Refused { server: "node", problem }));
        assert!(matches!(finished, Finished::Failed { fault, .. } if fault == "peer"));
    }

    #[test]
    fn a_transfer_is_looked_at_when_it_is_about_to_end() {
        let of = |eta_s| until_its_end(&Transfer { eta_s, ..Transfer::default() });
        assert_eq!((of(None), of(Some(1e300)), of(Some(-1.0))), (LOOK_EVERY, LOOK_EVERY, LOOK_EVERY));
        assert_eq!((of(Some(0.0)), of(Some(0.25))), (LOOK_AT_THE_END, Duration::from_millis(250)));
    }

    #[test]
    fn limits_are_sent_when_they_differ() {
        assert!(!differs(f64::INFINITY, f64::INFINITY) && differs(f64::INFINITY, 1.0) && differs(1.0, f64::INFINITY));
        assert!(!differs(100.0, 100.5) && differs(100.0, 102.0));
        assert_eq!((bits(f64::INFINITY), bits(1e6), bits(0.0)), (0, 8_000_000, 8_000));
    }
}
