//! The run of one delegated transfer by the engine, with this node at one end of the copy, and its receipt.

use std::sync::Arc;

use auth::Access;
use engine::control::Control;
use engine::job::JobEvent;
use engine::receive::{Receiving, TargetPlace};
use engine::scan::SourceRoot;
use engine::session::{Session, SessionParts};
use engine::transfer::{Ends, Outcome, TransferEvent};
use engine::{Error, identity::random_tag};
use model::fault::Fault;
use model::id::JobId;
use model::spec::Options;
use model::v1::node::Order;
use model::{Refusal, v1};
use sys::waker::Waker;
use wire::frame::{Direction, Open};

use super::connector::Connector;
use super::file_list::Outcomes;
use super::order::{self, OtherEnd, TransferPlan};
use super::remote_end::{self, refused};
use crate::access::AccessControl;
use crate::secrets::Secrets;
use crate::session_pool::Destination;

/// A transfer under way.
pub(super) struct TransferRun<'a> {
    pub access_control: &'a AccessControl,
    pub connector: &'a Connector,
    pub order: &'a Order,
    pub plan: &'a TransferPlan,
    pub access: &'a Access,
    pub control: &'a Control,
    /// The outcomes of its files, if they were named one by one.
    pub outcomes: &'a Outcomes,
    /// The transfer was begun before a restart of this node.
    pub begun: bool,
}

impl TransferRun<'_> {
    /// Runs the transfer to its end. The receipt is kept and shown, so the secrets are removed from the texts of servers.
    pub fn run(&self) -> v1::Receipt {
        let mut receipt = self.run_ends();
        receipt.error = receipt.error.map(|error| self.without_secrets(&error));
        for miss in &mut receipt.failures {
            miss.reason = self.without_secrets(&miss.reason);
        }
        receipt
    }

    /// A text without the secrets of this order.
    fn without_secrets(&self, text: &str) -> String {
        let given = self.order.credentials.as_ref();
        let s3 = given.and_then(|given| given.s3.as_ref());
        let keys = s3.map(|s3| [&s3.secret_access_key, &s3.session_token]).into_iter().flatten().flatten();
        let words = given.map(|given| [&given.key, &given.token]).into_iter().flatten().flatten();
        let urls: Vec<&str> = self.order.source.iter().chain([&self.order.target]).map(String::as_str).collect();
        Secrets::of(words.chain(keys)).hide(text, &urls)
    }

    fn run_ends(&self) -> v1::Receipt {
        let sources_here = || self.sources_here();
        let sources_there = |urls: &[String]| {
            let dialling = self.connector.dialling().map_err(refused)?;
            remote_end::sources(urls, self.order.credentials.as_ref(), &dialling)
        };
        let receiving_here = |options: &Options, waker: Waker| self.receiving_here(options, waker);
        match &self.plan.other_end {
            OtherEnd::Push { place, .. } => {
                self.run_engine(Ends::Push { sources: &sources_here, target: place.clone() })
            }
            OtherEnd::Pull { places, .. } => {
                self.run_engine(Ends::Pull { sources: places.clone(), target: &receiving_here })
            }
            OtherEnd::PullFromServer(urls) => {
                let sources = || sources_there(urls);
                self.run_engine(Ends::Push { sources: &sources, target: self.plan.here[0].clone() })
            }
            OtherEnd::PushToServer(url) => {
                let receiving = |options: &Options, waker: Waker| self.receiving_there(url, options, waker);
                self.run_engine(Ends::Pull { sources: self.plan.here.clone(), target: &receiving })
            }
        }
    }

    fn run_engine(&self, ends: Ends<'_>) -> v1::Receipt {
        let keep = |session: Session| match self.destination() {
            Some(destination) => self.connector.pool.put(destination, session),
            None => session.close(),
        };
        // A session with this node itself has no path whose history or shares would matter.
        let has_path = self.destination().is_some();
        let session_parts = SessionParts {
            history: has_path.then(|| self.access_control.history()),
            path_shares: has_path.then(|| self.access_control.path_shares()),
            streams_max: self.access_control.policy().third_party.max_streams.into(),
            marker: self.connector.marker(self.order.scitag).filter(|_| has_path),
            ..SessionParts::default()
        };
        let transfer = engine::transfer::Transfer {
            id: JobId(self.order.id),
            options: self.plan.options.clone(),
            congestion: self.order.congestion.clone(),
            session_parts,
            ends,
            files: self.plan.files.as_ref().map(|files| files.list.clone()),
            retry_for: self.plan.retry_for,
            is_piped: false,
            begun: self.begun,
            is_retry_useful: None,
            control: self.control,
            keep: Some(&keep),
        };
        if self.plan.files.is_some() {
            self.control.report_files();
        }
        let mut note = |note: TransferEvent<'_>| match (note, &self.plan.files) {
            (TransferEvent::Job(JobEvent::File(settled)), Some(files)) => self.outcomes.add(files, &settled),
            (TransferEvent::Job(_), _) => {}
            (TransferEvent::Retry(error, pause), _) => {
                let error = self.without_secrets(&error.to_string());
                tracing::info!(job = %transfer.id, error, pause_s = pause.as_secs(), "the connection broke; trying again");
            }
        };
        let done =
            transfer.run(&mut || self.connect(), &mut note).unwrap_or_else(|error: Error| Outcome::failed(error));
        if let Some(files) = &self.plan.files {
            self.outcomes.add_missed(files, done.report.misses.iter().map(|miss| (&miss.path, &miss.refusal)));
        }
        let (source, target) = order::ends(self.order);
        transfer.receipt(&done, source, target)
    }

    /// The other node; none if the other end is a server.
    fn destination(&self) -> Option<Destination> {
        let (OtherEnd::Push { to, .. } | OtherEnd::Pull { from: to, .. }) = &self.plan.other_end else { return None };
        Some(Destination {
            to: to.clone(),
            node: self.plan.node?.0,
            plain: self.order.plain,
            congestion: self.order.congestion.clone(),
        })
    }

    fn connect(&self) -> engine::Result<Session> {
        // Checked at every attempt, because the grant may have been revoked.
        if !self.access_control.may_continue(self.access) {
            let reason = "the access key that began this job is not valid any more";
            return Err(Error::Refused { peer: "the source node".into(), refusal: Refusal::new(Fault::Auth, reason) });
        }
        match self.destination() {
            Some(destination) => self.connector.session(self.access_control, &destination, &self.plan.keys),
            None => self.connector.loopback_session(self.access_control, self.access),
        }
    }

    fn sources_here(&self) -> engine::Result<Vec<SourceRoot>> {
        let roots = self.plan.here.iter().map(|place| self.access_control.source(self.access, place));
        let refused = |refusal| Error::Refused { peer: "the source node".into(), refusal };
        roots.collect::<Result<_, _>>().map_err(refused)
    }

    /// The receiving side of an attempt, in an export of this node.
    fn receiving_here(&self, options: &Options, waker: Waker) -> engine::Result<Arc<Receiving>> {
        let tag = tag()?;
        let order = self.open(options);
        let place = self.access_control.target(self.access, &order, &tag).map_err(refused)?;
        Ok(place.receive(options.clone(), tag, waker))
    }

    /// The receiving side of an attempt, on a server.
    fn receiving_there(&self, url: &str, options: &Options, waker: Waker) -> engine::Result<Arc<Receiving>> {
        let dialling = self.connector.dialling().map_err(refused)?;
        let target = remote_end::place(url, self.order.credentials.as_ref(), &dialling).map_err(refused)?;
        target.check()?;
        Ok(TargetPlace::new(target.store, target.path).receive(options.clone(), tag()?, waker))
    }

    /// The native order that a client would send to this node as the target.
    fn open(&self, options: &Options) -> Open {
        Open {
            job: *self.order.id.as_bytes(),
            direction: Direction::Push,
            places: self.plan.here.clone(),
            options: options.clone(),
            congestion: None,
            steer: self.control.settings().0,
            listed: false,
        }
    }
}

fn tag() -> engine::Result<String> {
    random_tag().map_err(|_| Error::Order("the system gives no random numbers".into()))
}

/// Checks, before an order is accepted, that the principal may use the places on this node.
///
/// # Errors
/// The principal lacks a right, or a source does not exist.
pub(super) fn check(
    access_control: &AccessControl,
    access: &Access,
    order: &Order,
    plan: &TransferPlan,
) -> Result<(), Refusal> {
    match plan.other_end {
        OtherEnd::Push { .. } | OtherEnd::PushToServer(_) => {
            let roots =
                plan.here.iter().map(|place| access_control.source(access, place)).collect::<Result<Vec<_>, _>>()?;
            engine::scan::distinct_names(&roots)
        }
        OtherEnd::Pull { .. } | OtherEnd::PullFromServer(_) => {
            access_control.may_receive(access, &plan.here[0], *order.id.as_bytes(), &plan.options)
        }
    }
}
