//! The way to the server that has a file: the first server, and those that it and others name instead.

use super::connection::{RootResult, RootTarget};
use crate::request_error::RequestError;

/// Redirects of one request.
const REDIRECTS_MAX: usize = 16;

/// How far a request has gone.
pub(super) struct RedirectChain {
    origin: RootTarget,
    to: RootTarget,
    /// Whether the present server is one that was known to have the file: what it was told then may be out of date.
    is_known: bool,
    /// The hosts that were named and could not be reached, or refused.
    tried: Vec<String>,
    /// Why the first of them failed.
    first_failure: Option<RequestError>,
    redirects: usize,
}

impl RedirectChain {
    /// A request that begins at the first server, or at one that is known to have the file.
    pub fn new(origin: RootTarget, known: Option<RootTarget>) -> RedirectChain {
        let is_known = known.is_some();
        let to = known.unwrap_or_else(|| origin.clone());
        RedirectChain { origin, to, is_known, tried: Vec::new(), first_failure: None, redirects: 0 }
    }

    /// The server to ask now.
    pub fn to(&self) -> &RootTarget {
        &self.to
    }

    /// Goes to the server that this one names.
    ///
    /// # Errors
    /// There were too many.
    pub fn follow(&mut self, next: RootTarget) -> RootResult<()> {
        self.redirects += 1;
        if self.redirects > REDIRECTS_MAX {
            let why = format!("{} redirects too often", self.origin.authority());
            return Err(RequestError::protocol_error(why));
        }
        self.to = next;
        self.is_known = false;
        Ok(())
    }

    /// Goes back to the first server, and tells it which hosts have failed; the server that was known before may be named once more.
    ///
    /// # Errors
    /// The first server itself has failed, or there were too many redirects. The failure of the first host that it named says more than its
    /// own.
    pub fn go_back(&mut self, error: RequestError) -> RootResult<()> {
        if self.to.authority() == self.origin.authority() {
            return Err(self.first_failure.take().unwrap_or(error));
        }
        if self.is_known {
            return self.follow(self.origin.clone());
        }
        self.first_failure.get_or_insert(error);
        self.tried.push(std::mem::take(&mut self.to.host));
        let parameters = format!("tried={}", self.tried.join(","));
        self.follow(RootTarget { parameters, ..self.origin.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str) -> RootTarget {
        RootTarget { host: host.into(), port: 1094, is_secure: true, parameters: String::new() }
    }

    fn failed() -> RequestError {
        RequestError::config_error("refused")
    }

    #[test]
    fn the_first_server_learns_which_hosts_have_failed() {
        let mut chain = RedirectChain::new(target("head"), None);
        for (mover, tried) in [("m1", "tried=m1"), ("m2", "tried=m1,m2")] {
            chain.follow(target(mover)).unwrap();
            assert_eq!(chain.to().host, mover);
            chain.go_back(failed()).unwrap();
            assert_eq!((chain.to().host.as_str(), chain.to().parameters.as_str()), ("head", tried));
        }
        let failure = chain.go_back(RequestError::config_error("nobody is left")).unwrap_err();
        assert!(format!("{failure:?}").contains("refused"), "{failure:?}: that of the first mover");
        assert!(RedirectChain::new(target("head"), None).go_back(failed()).is_err());
    }

    #[test]
    fn a_server_that_was_known_may_be_named_again() {
        let mut chain = RedirectChain::new(target("head"), Some(target("m1")));
        chain.go_back(failed()).unwrap();
        assert_eq!(chain.to(), &target("head"), "its permission may have expired");
        chain.follow(target("m1")).unwrap();
        chain.go_back(failed()).unwrap();
        assert_eq!(chain.to().parameters, "tried=m1");
    }

    #[test]
    fn a_circle_of_redirects_ends() {
        let mut chain = RedirectChain::new(target("head"), Some(target("m1")));
        assert!((0..REDIRECTS_MAX).all(|_| chain.follow(target("m2")).is_ok()));
        assert!(chain.follow(target("m2")).is_err());
    }
}
