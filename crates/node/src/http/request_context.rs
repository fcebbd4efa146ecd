//! A request with its principal, its target and the store that the target lies in.

use std::cell::Cell;
use std::io;

use auth::{Access, Action};
use model::locator::NodePlace;
use model::{Kind, RelPath};
use serve::Exchange;
use store::Source;
use web::copy;
use web::dav::condition::{If, State};
use web::scitag::SciTag;
use web::target::{Target, redacted};
use web::{Headers, Method, Request};

use super::HttpService;
use super::etag::etag;
use super::refused::{Outcome, Refused, RequestFailure, refuse};
use crate::access::{ResolvedPath, check_name};
use crate::authorization::{Authorization, NotAuthorized};
use crate::exports::is_reserved;
use crate::fireflies::FlowGuard;
use crate::locks::SubmittedLocks;
use crate::meters::WorkMeter;
use authn::Principal;

/// A request being answered.
pub(crate) struct RequestContext<'a> {
    pub service: &'a HttpService,
    pub exchange: &'a mut dyn Exchange,
    pub target: Target,
    pub principal: Principal,
    /// The meter of the request.
    pub meter: WorkMeter,
    /// The field `If`, and whether it has been evaluated.
    pub condition: Option<If>,
    pub is_evaluated: Cell<bool>,
    /// The locks that the request submits.
    pub submitted: SubmittedLocks,
}

impl RequestContext<'_> {
    /// The request itself.
    pub fn request(&self) -> &Request {
        self.exchange.request()
    }

    /// The request's target for people, without secrets.
    pub fn shown_target(&self) -> String {
        redacted(self.request().target.split('?').next().unwrap_or_default())
    }

    /// Sends bytes of a file as the answer's body, and counts them.
    ///
    /// # Errors
    /// The connection breaks, the client takes bytes too slowly, or the file cannot be read.
    pub fn send(&mut self, source: &dyn Source, offset: u64, bytes: u64) -> io::Result<()> {
        self.exchange.send(source, offset, bytes, &mut |sent| self.meter.sent(sent))
    }

    /// The access of the principal.
    pub fn access(&self) -> &Access {
        &self.principal.access
    }

    /// The export and the path in it; none at the root.
    ///
    /// # Errors
    /// The target cannot be the path of an export.
    pub fn place(&self) -> Outcome<Option<(String, RelPath)>> {
        place(&self.target)
    }

    /// Adds the node's fingerprint to an answer, for another node that offers to copy by the native protocol.
    pub fn add_fingerprint(&self, headers: &mut Headers) {
        if self.request().headers.get("longhaul-offer").is_some()
            && let Ok(fingerprint) = self.service.access_control.fingerprint()
        {
            headers.add("Longhaul-Node", fingerprint.to_string());
        }
    }

    /// The host and port by which this client addresses the node.
    pub fn authority(&self) -> Option<&str> {
        self.target.authority.as_deref().or_else(|| self.request().headers.get("host"))
    }

    /// The prefix of paths in a document. It is empty, because a proxy may know this node by another name and scheme (RFC 4918,
    /// section 8.3). davix (0.8.4) gets whole URLs, because it decodes names only in those.
    pub fn href_prefix(&self) -> String {
        let agent = self.request().headers.get("user-agent").unwrap_or_default();
        if agent.contains("davix") { self.origin() } else { String::new() }
    }

    /// Scheme, host and port by which this client addresses the node.
    pub fn origin(&self) -> String {
        let authority = self.authority();
        let scheme = if self.exchange.is_secure() { "https" } else { "http" };
        let plain = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
        authority.filter(plain).map_or_else(String::new, |authority| format!("{scheme}://{authority}"))
    }

    /// Resolves a path, if the policy and its call-out program allow the action there.
    ///
    /// # Errors
    /// The action is not allowed, the export or path does not exist, or the condition `If` fails.
    pub fn resolve(&self, action: Action, export: &str, path: &RelPath) -> Outcome<ResolvedPath> {
        if action.changes() && self.service.access_control.is_read_only(self.access(), export) {
            // No other credential would help.
            return Err(refuse(403, format!("the export {export} is read-only on this node")));
        }
        self.check_export(export)?;
        let resolved = self.authorization().resolve(action, export, path).map_err(RequestFailure::from);
        if resolved.is_ok() && !self.is_evaluated.replace(true) {
            self.evaluate_if()?;
        }
        let by_rules = self.access().allow(action, export, true, path).is_ok();
        let resolved = resolved.map_err(|failure| match check_name(action, path) {
            // Another credential would not help.
            Err(refusal) if by_rules => refusal.into(),
            _ => self.deny(failure),
        })?;
        // A decision of the program alone has no permission that could be limited to directories.
        if by_rules && self.access().only_as_dir(action, export, path) && is_file(action, &resolved) {
            let reason = format!("{} is a file, and your credential is for a directory", self.shown_target());
            return Err(self.deny(refuse(403, reason)));
        }
        Ok(resolved)
    }

    /// Turns a refusal into the answer of the authenticator: an anonymous client is asked for a credential, a principal gets the
    /// answer that its credential does not suffice.
    pub fn deny(&self, failure: RequestFailure) -> RequestFailure {
        let RequestFailure::Refused(refused) = failure else { return failure };
        self.service.services.authenticator.deny(&self.principal, self.exchange.peer().ip(), *refused).into()
    }

    /// Checks that there is an export of this name, as far as an anonymous client may know: on a node with public data, a browser
    /// that requests its icon must not be asked for a password.
    fn check_export(&self, export: &str) -> Outcome<()> {
        let access_control = &self.service.access_control;
        let may_know =
            || is_reserved(export) || self.service.services.authenticator.has_public_data(self.exchange.peer().ip());
        if self.principal.is_anonymous && !access_control.has_export(export) && may_know() {
            return Err(refuse(404, "there is no export of that name"));
        }
        Ok(())
    }

    /// Checks that an action is allowed on an entry below a resolved path. It is cheap enough for many entries: nothing is opened
    /// unless the call-out program decides.
    ///
    /// # Errors
    /// The action is not allowed.
    pub fn check_allowed(&self, action: Action, export: &str, path: &RelPath) -> Outcome<()> {
        match self.authorization().is_decided_by_rules(action, export, path) {
            Some(true) => Ok(()),
            Some(false) => Err(refuse(403, format!("you may not {} {path}", action.words()))),
            None => self.resolve(action, export, path).map(drop),
        }
    }

    /// Evaluates the condition `If` (RFC 4918, section 10.4): after the check of rights, and again under the lock of the change.
    ///
    /// # Errors
    /// The condition does not hold.
    pub fn evaluate_if(&self) -> Outcome<()> {
        let Some(condition) = &self.condition else { return Ok(()) };
        if !condition.holds(|resource| self.state_of(resource)) {
            return Err(refuse(412, "the condition If does not hold for the current entry or its locks"));
        }
        Ok(())
    }

    /// The entity tag and locks of a resource, as far as the principal may know them.
    fn state_of(&self, resource: Option<&str>) -> State {
        let target = match resource {
            None => Some(self.target.clone()),
            Some(address) if copy::is_local(address, self.authority().unwrap_or_default()) => {
                web::target::parse(address).ok()
            }
            Some(_) => None,
        };
        let Some((export, path)) = target.and_then(|target| place(&target).ok().flatten()) else {
            return State::default();
        };
        let tokens =
            self.service.access_control.locks.covering(&export, &path).into_iter().map(|lock| lock.token).collect();
        let place = NodePlace::Path { export, path };
        let resolved = self.service.access_control.resolve(self.access(), Action::Stat, &place).ok();
        let stat = resolved.and_then(|resolved| resolved.store.stat(&resolved.path).ok());
        State { etag: stat.filter(|stat| stat.meta.kind != Kind::Dir).map(|stat| etag(&stat)), tokens }
    }

    /// Begins the flow of the body that follows, if the client marked the request (`SciTag`). The flow ends when the guard is
    /// dropped. HTTP/2 streams are not reported: they share a connection and have no numbers of their own.
    pub fn begin_flow(&self, is_sender: bool) -> FlowGuard {
        let tag = self.request().headers.get("scitag").map(SciTag::parse).unwrap_or_default();
        match self.exchange.socket() {
            Some(socket) if self.request().method != Method::Head => {
                self.service.fireflies().begin(tag, socket, is_sender).with_unread(self.exchange.unread_bytes())
            }
            _ => FlowGuard::default(),
        }
    }

    /// The question whether the principal may do something.
    fn authorization(&self) -> Authorization<'_> {
        Authorization {
            services: &self.service.services,
            principal: &self.principal,
            peer: self.exchange.peer().ip(),
            method: self.request().method.name(),
            submitted: &self.submitted,
        }
    }
}

/// Whether the path is that of a file, or of one that is about to be created.
fn is_file(action: Action, resolved: &ResolvedPath) -> bool {
    let is_there = || resolved.store.stat(&resolved.path).is_ok() && !resolved.store.is_dir(&resolved.path);
    action == Action::Create || is_there()
}

impl From<NotAuthorized> for RequestFailure {
    fn from(why: NotAuthorized) -> RequestFailure {
        match why {
            NotAuthorized::Refused(refusal) => refusal.into(),
            NotAuthorized::Busy => {
                let reason = "the node decides about too many requests at once; try again later";
                Refused::new(503, reason).with("Retry-After", "5").into()
            }
        }
    }
}

/// The export and the path that a target names; none at the root.
pub(crate) fn place(target: &Target) -> Outcome<Option<(String, RelPath)>> {
    export_and_path(&target.path)
}

/// The export and the path in it that a path below the node's root names; none for the root.
pub(crate) fn export_and_path(path: &RelPath) -> Outcome<Option<(String, RelPath)>> {
    let first = path.as_bytes().split(|b| *b == b'/').next().unwrap_or_default();
    if first.is_empty() {
        return Ok(None);
    }
    let nowhere = || refuse(404, "there is no export of that name");
    let below = RelPath::parse(first).ok().and_then(|first| path.below(&first)).ok_or_else(nowhere)?;
    let export = String::from_utf8(first.to_vec()).map_err(|_| nowhere())?;
    Ok(Some((export, below)))
}
