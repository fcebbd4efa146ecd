//! Who asks: from what a request carries to the one `Access` that answers every question.

use std::sync::Arc;
use std::time::Instant;

use auth::{Access, AccessKey, Actions, Ticket};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use web::target::Target;

use super::exchange::Exchange;
use super::refused::{Outcome, Refused, Trouble};
use super::slow::Slow;
use crate::host::Exports;

/// Somebody who asks.
pub(crate) struct Visitor {
    /// What they may do.
    pub access: Access,
    /// Nothing was shown that says who they are: a better question may get a better answer.
    pub is_nobody: bool,
}

/// Lets in, or asks who is there.
pub(crate) struct Keeper {
    host: Arc<Exports>,
    slow: Slow,
}

/// What a request shows.
#[derive(Debug)]
enum Shown {
    Nothing,
    Key(AccessKey),
    /// A token or a macaroon.
    Bearer(String),
    /// Something that is none of ours.
    Unknown(&'static str),
}

fn bearer(text: &str) -> Shown {
    let text = text.trim();
    if text.starts_with("lhk1_") {
        return text
            .parse()
            .map_or(Shown::Unknown("the access key is damaged or incomplete; copy all of it again"), Shown::Key);
    }
    Shown::Bearer(text.to_owned())
}

/// The credentials of a request: `Authorization`, else `?authz=`.
fn shown(exchange: &dyn Exchange, target: &Target) -> Shown {
    let field = exchange.request().headers.get("authorization").map(str::trim);
    let Some(field) = field.filter(|field| !field.is_empty()) else {
        return match target.authz() {
            Some(text) => bearer(strip(&text, "bearer").unwrap_or(&text)),
            None => Shown::Nothing,
        };
    };
    if let Some(text) = strip(field, "bearer") {
        return bearer(text);
    }
    let Some(encoded) = strip(field, "basic") else {
        return Shown::Unknown("of the schemes of Authorization, Bearer and Basic are known here");
    };
    // The user's name says nothing; the password is a key or a token.
    let decoded = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((_, password)) if !password.is_empty() => bearer(password),
        _ => Shown::Unknown("Basic takes an access key or a token as the password"),
    }
}

/// What follows a scheme, which has no case.
fn strip<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (first, rest) = text.split_once(' ')?;
    first.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

impl Keeper {
    pub fn new(host: Arc<Exports>) -> Keeper {
        Keeper { host, slow: Slow::default() }
    }

    /// Who asks, and what they may do.
    pub fn who(&self, exchange: &dyn Exchange, target: &Target) -> Outcome<Visitor> {
        let address = exchange.peer().ip();
        let found = match shown(exchange, target) {
            Shown::Nothing => return Ok(self.nobody()),
            Shown::Key(key) => self.host.access_by_key(&key).map_err(|refusal| refusal.reason),
            Shown::Bearer(_) => Err("no token is known here".to_owned()),
            Shown::Unknown(why) => Err(why.to_owned()),
        };
        match found {
            Ok(access) => {
                self.slow.succeeded(address);
                Ok(Visitor { access, is_nobody: false })
            }
            Err(why) => {
                std::thread::sleep(self.slow.failed(address, Instant::now()));
                Err(self.challenge(Refused::new(401, why.clone()), Some(&why)).into())
            }
        }
    }

    fn nobody(&self) -> Visitor {
        let nothing = || {
            let (who, holder) = ("nobody".to_owned(), auth::access::GUEST.to_owned());
            Access::Visitor(Arc::new(Ticket {
                who,
                holder,
                permits: Vec::new(),
                everywhere: Actions::NONE,
                expires: None,
            }))
        };
        Visitor { access: self.host.access_of_nobody().unwrap_or_else(nothing), is_nobody: true }
    }

    /// A refusal that asks who is there (RFC 6750, section 3).
    pub fn challenge(&self, refused: Refused, why: Option<&str>) -> Refused {
        let quoted = |text: &str| text.replace(['"', '\\'], "'");
        let error = why.map(|why| format!(", error=\"invalid_token\", error_description=\"{}\"", quoted(why)));
        refused
            .with("WWW-Authenticate", format!("Bearer realm=\"longhaul\"{}", error.unwrap_or_default()))
            .with("WWW-Authenticate", "Basic realm=\"longhaul: an access key or a token as the password\"")
    }

    /// The same, to somebody who has shown nothing.
    pub fn challenge_nobody(&self, reason: &str) -> Trouble {
        self.challenge(Refused::new(401, reason), None).into()
    }
}
