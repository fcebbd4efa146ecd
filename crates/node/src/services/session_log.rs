//! Writes the events of native sessions to the log and to the audit log.

use model::Refusal;
use std::net::SocketAddr;

use auth::Access;
use engine::node::Event;
use model::fault::{Blame, Fault};
use model::locator::NodePlace;
use model::units::{BitRate, Bytes};
use wire::frame::Direction;

use super::Services;
use crate::audit::Decision;
use crate::meters::RefusalReason;
use crate::native_requests;

/// The outcome of a refusal in the audit log: "denied" for a lack of rights, else "failed".
fn outcome(fault: Fault) -> &'static str {
    if fault == Fault::Auth { "denied" } else { "failed" }
}

impl Services {
    /// Logs a login that was refused.
    pub(crate) fn log_refused_login(&self, peer: SocketAddr, refusal: &Refusal) {
        let reason = Some(refusal.reason.as_str());
        self.count_refused_login(peer, refusal);
        tracing::info!(target: "access", %peer, event = "login", outcome = "refused", error = reason);
        let outcome = outcome(refusal.fault);
        self.audit_log.add(&Decision { outcome, reason, ..decision(peer, ("nobody", true), "login", "") });
    }

    /// Logs an event of a session.
    pub(crate) fn log_event(&self, peer: SocketAddr, access: &Access, event: &Event<'_>) {
        let who = access.who();
        let principal = (who.as_str(), access.is_anonymous());
        match event {
            Event::Login { software } => {
                self.meters.logged_in();
                tracing::info!(target: "access", %peer, who, event = "login", software);
                self.audit_log.add(&decision(peer, principal, "login", ""));
            }
            Event::Renewed { streams } => {
                tracing::info!(target: "access", %peer, who, event = "renew", streams);
                self.audit_log.add(&decision(peer, principal, "renew", ""));
            }
            Event::Asked { request, refusal } => {
                if refusal.is_some_and(|refusal| refusal.fault == Fault::Auth) {
                    self.meters.refused(RefusalReason::Policy);
                }
                let what = native_requests::describe(request);
                let error = refusal.map(|r| r.reason.as_str());
                let outcome_text = refusal.map_or("done", |_| "refused");
                tracing::info!(target: "access", %peer, who, event = "ask", what, outcome = outcome_text, error);
                let outcome = refusal.map_or("allowed", |refusal| outcome(refusal.fault));
                self.audit_log.add(&Decision { outcome, reason: error, ..decision(peer, principal, "ask", &what) });
            }
            Event::Job { .. } => self.log_job(peer, access, &who, event),
        }
    }

    fn log_job(&self, peer: SocketAddr, access: &Access, who: &str, event: &Event<'_>) {
        let Event::Job { order, totals, elapsed, error } = event else { return };
        if error.is_none() && totals.failed == 0 {
            self.access.remove_transfer_key(access);
        }
        self.count_job(totals, *error);
        let event = if order.direction == Direction::Push { "push" } else { "pull" };
        let places: Vec<String> = order.places.iter().take(3).map(NodePlace::to_string).collect();
        let places = places.join(" ");
        let seconds = elapsed.as_secs_f64();
        let rate = BitRate::mean(Bytes(totals.bytes), seconds).to_string();
        let outcome_text = match error {
            Some(_) => "failed",
            None if totals.failed > 0 => "partial",
            None => "done",
        };
        let reason = error.map(|error| error.as_refusal().reason);
        let reason = reason.as_deref();
        tracing::info!(
            target: "access", %peer, who, event, job = %model::id::Uuid::from_bytes(order.job), places, outcome = outcome_text,
            bytes = totals.bytes, files = totals.files, skipped = totals.skipped, failed = totals.failed, seconds, rate,
            error = reason,
        );
        let outcome = match error {
            Some(error) => outcome(error.fault()),
            None if totals.failed > 0 => "failed",
            None => "allowed",
        };
        let bytes = totals.bytes;
        self.audit_log.add(&Decision {
            outcome,
            reason,
            bytes,
            seconds,
            ..decision(peer, (who, access.is_anonymous()), event, &places)
        });
    }
}

/// A decision of the native protocol with the outcome "allowed", for the caller to change. `principal` is the principal's name, and
/// whether it is anonymous.
fn decision<'a>(peer: SocketAddr, principal: (&'a str, bool), action: &'a str, target: &'a str) -> Decision<'a> {
    let (who, is_anonymous) = principal;
    Decision {
        time: web::date::rfc3339_us(crate::clock::now()),
        is_anonymous,
        peer,
        who,
        by: "native",
        action,
        target,
        other: None,
        outcome: "allowed",
        status: None,
        reason: None,
        bytes: 0,
        seconds: 0.0,
    }
}
