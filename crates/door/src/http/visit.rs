//! A request with what is known about it: whom it comes from, what it means, where that lies.

use auth::{Access, Action};
use model::RelPath;
use model::locator::Place;
use web::target::{Target, redacted};
use web::{Headers, Request};

use super::Web;
use super::exchange::Exchange;
use super::keeper::Visitor;
use super::refused::{Outcome, Refused, Trouble, refuse};
use crate::host::Reach;

/// A request being answered.
pub(crate) struct Visit<'a> {
    pub web: &'a Web,
    pub exchange: &'a mut dyn Exchange,
    pub target: Target,
    pub visitor: Visitor,
}

impl Visit<'_> {
    /// What was asked.
    pub fn request(&self) -> &Request {
        self.exchange.request()
    }

    /// Its target for people, without secrets.
    pub fn shown(&self) -> String {
        redacted(self.request().target.split('?').next().unwrap_or_default())
    }

    /// Who asks.
    pub fn access(&self) -> &Access {
        &self.visitor.access
    }

    /// The export and the path in it; none at the root.
    pub fn place(&self) -> Outcome<Option<(String, RelPath)>> {
        place(&self.target)
    }

    /// Says which node this is, to another one that offers to copy by the native protocol.
    pub fn introduce(&self, headers: &mut Headers) {
        if self.request().headers.get("longhaul-offer").is_some()
            && let Ok(fingerprint) = self.web.host.fingerprint()
        {
            headers.add("Longhaul-Node", fingerprint.to_string());
        }
    }

    /// The name by which this client calls the node.
    pub fn called(&self) -> Option<&str> {
        self.target.authority.as_deref().or_else(|| self.request().headers.get("host"))
    }

    /// Scheme, host and port by which this client calls the node. davix reads names only out of whole URLs.
    pub fn origin(&self) -> String {
        let called = self.called();
        let scheme = if self.exchange.is_secure() { "https" } else { "http" };
        let plain = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
        called.filter(plain).map_or_else(String::new, |called| format!("{scheme}://{called}"))
    }

    /// The store and path behind a name, if the action is allowed there.
    pub fn reach(&self, action: Action, export: &str, path: &RelPath) -> Outcome<Reach> {
        let place = Place::Path { export: export.to_owned(), path: path.clone() };
        let reach = self.web.host.allowed(self.access(), action, &place);
        let reach = reach.map_err(|refusal| self.unwelcome(refusal.into()))?;
        // As a directory's name too: what would come below it could not be seen.
        if path.as_bytes().split(|b| *b == b'/').any(store::posix::is_temporary_name) {
            return Err(match action.changes() {
                true => refuse(403, "names of unfinished files are this node's own"),
                false => refuse(404, "a file that is not finished is nobody's yet"),
            });
        }
        Ok(reach)
    }

    /// A no to somebody who has not said who he is becomes a question: who are you?
    fn unwelcome(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Refused(refused) if self.visitor.is_nobody && matches!(refused.status, 403 | 404) => {
                self.web.keeper.challenge(Refused { status: 401, ..*refused }, None).into()
            }
            other => other,
        }
    }
}

/// The export and the path that a target names; none at the root.
pub(crate) fn place(target: &Target) -> Outcome<Option<(String, RelPath)>> {
    if target.path.is_root() {
        return Ok(None);
    }
    let named =
        target.export().and_then(|(name, path)| Some((String::from_utf8(name.as_bytes().to_vec()).ok()?, path)));
    named.map(Some).ok_or_else(|| refuse(404, "there is no export of that name"))
}
