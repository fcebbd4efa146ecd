//! Whether a principal may do something, for every protocol whose clients ask for one path after the other: the rules decide, and the
//! operator's program, where the policy has one.

use std::net::IpAddr;
use std::sync::Arc;

use auth::access::{ANONYMOUS, PathKind};
use auth::policy::{AskedWhen, Callout};
use auth::{Access, Action, Actions, Permit, Ticket};
use authn::{Credential, Principal};
use model::locator::NodePlace;
use model::{Fault, Refusal, RelPath};

use crate::access::ResolvedPath;
use crate::callout::{CredentialFacts, Full, NO_CREDENTIAL, Question, Verdict};
use crate::locks::SubmittedLocks;
use crate::services::Services;

/// The question whether a principal may do something.
pub(crate) struct Authorization<'a> {
    pub services: &'a Services,
    pub principal: &'a Principal,
    /// The address of the client.
    pub peer: IpAddr,
    /// What the client asks for, in the words of its protocol.
    pub method: &'a str,
    /// The locks that the client submits.
    pub submitted: &'a SubmittedLocks,
}

/// Why a principal may not do something.
#[derive(Debug)]
pub(crate) enum NotAuthorized {
    /// The rules, or the program, refuse; or the place does not exist.
    Refused(Refusal),
    /// The program is asked about too many requests at once.
    Busy,
}

impl From<Refusal> for NotAuthorized {
    fn from(refusal: Refusal) -> NotAuthorized {
        NotAuthorized::Refused(refusal)
    }
}

impl Authorization<'_> {
    fn access(&self) -> &Access {
        &self.principal.access
    }

    /// Whether the rules allow an action; none if the program decides.
    pub fn is_decided_by_rules(&self, action: Action, export: &str, path: &RelPath) -> Option<bool> {
        let policy = self.services.access.policy();
        let by_rules = self.access().allow(action, export, true, path).is_ok();
        match policy.callout.as_ref() {
            Some(callout) if !by_rules || callout.asked == AskedWhen::Always => None,
            _ => Some(by_rules),
        }
    }

    /// Decides by the policy and its call-out program: the program may allow what no rule allows, and may refuse if it is asked about
    /// every request.
    ///
    /// # Errors
    /// The action is not allowed, or the place does not exist.
    pub fn resolve(&self, action: Action, export: &str, path: &RelPath) -> Result<ResolvedPath, NotAuthorized> {
        let access_control = &self.services.access;
        let policy = access_control.policy();
        let place = NodePlace::Path { export: export.to_owned(), path: path.clone() };
        // The program is not asked about an export that does not exist or is read-only.
        let open = access_control.is_writable(export).filter(|writable| *writable || !action.changes());
        let (Some(callout), Some(writable)) = (policy.callout.as_ref(), open) else {
            return Ok(access_control.resolve_with(self.access(), action, &place, self.submitted)?);
        };
        let by_rules = self.access().may_see(export) && self.access().allow(action, export, writable, path).is_ok();
        if by_rules && callout.asked != AskedWhen::Always {
            return Ok(access_control.resolve_with(self.access(), action, &place, self.submitted)?);
        }
        let verdict = self.ask_program(callout, action, export, path, by_rules)?;
        let by_policy = || access_control.resolve_with(self.access(), action, &place, self.submitted);
        let resolved = match (verdict.allow, by_rules) {
            (true, false) => access_control.resolve_with(
                &self.single_permission(action, export, path),
                action,
                &place,
                self.submitted,
            ),
            (true, true) => by_policy(),
            (false, false) if verdict.reason.is_empty() => by_policy(),
            (false, _) => {
                Err(Refusal::new(Fault::Auth, format!("refused by this node's operator: {}", verdict.reason)))
            }
        };
        Ok(resolved?)
    }

    fn ask_program(
        &self,
        callout: &Callout,
        action: Action,
        export: &str,
        path: &RelPath,
        allowed: bool,
    ) -> Result<Verdict, NotAuthorized> {
        let who = self.access().who();
        let path_text = path.to_string();
        let question = Question {
            v: 1,
            peer: self.peer,
            who: &who,
            method: self.method,
            export,
            path: &path_text,
            action: word(action),
            policy: if allowed { "allows" } else { "undecided" },
            credential: credential_facts(&self.principal.credential),
        };
        let verdict = self.services.callouts.ask(callout, self.access().holder(), path.as_bytes(), &question);
        verdict.map_err(|Full| NotAuthorized::Busy)
    }

    /// An access for this one action on this one path, for a principal that only the program allows.
    fn single_permission(&self, action: Action, export: &str, path: &RelPath) -> Access {
        let access = self.access();
        let holder = match access {
            Access::Anonymous(_) => ANONYMOUS.to_owned(),
            Access::Granted(grant) => format!("key:{}", grant.id),
            Access::Ticket(ticket) => ticket.holder.clone(),
        };
        let permit = Permit::own(export.to_owned(), path.clone(), PathKind::Entry, action.needs());
        let ticket = Ticket {
            who: access.who(),
            holder,
            permits: vec![permit],
            everywhere: Actions::NONE,
            expires: access.expires(),
        };
        Access::Ticket(Arc::new(ticket))
    }
}

/// The word of an action for the call-out program.
fn word(action: Action) -> &'static str {
    match action {
        Action::Read => "read",
        Action::Create => "create",
        Action::Modify => "modify",
        Action::Stat => "stat",
        Action::List => "list",
        Action::MakeDir => "mkdir",
        Action::Overwrite => "overwrite",
        Action::Rename => "rename",
        Action::Remove => "remove",
        _ => "other",
    }
}

/// The facts about a credential that the call-out program gets.
fn credential_facts(credential: &Credential) -> CredentialFacts<'_> {
    match credential {
        Credential::None => CredentialFacts { kind: NO_CREDENTIAL, ..CredentialFacts::default() },
        Credential::Key { id } => CredentialFacts { kind: "key", id: Some(id), ..CredentialFacts::default() },
        Credential::Macaroon { uuid, name } => {
            CredentialFacts { kind: "macaroon", id: Some(uuid), subject: Some(name), ..CredentialFacts::default() }
        }
        Credential::Certificate { identity } => CredentialFacts {
            kind: "certificate",
            dn: Some(&identity.name),
            fqans: identity.fqans().collect(),
            ..CredentialFacts::default()
        },
        Credential::Token { claims } => CredentialFacts {
            kind: "token",
            id: claims.id.as_deref(),
            issuer: Some(&claims.issuer),
            subject: Some(&claims.subject),
            groups: &claims.groups,
            ..CredentialFacts::default()
        },
    }
}
