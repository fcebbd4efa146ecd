//! The way to the server that has a file: the first server, and those that it and others name instead.

use super::connection::{RootResult, RootTarget};
use crate::request_error::RequestError;

/// Redirects of one request.
const REDIRECTS_MAX: usize = 16;

/// How far a request has gone.
pub(super) struct RedirectChain {
    origin: RootTarget,
    to: RootTarget,
    /// The hosts that were named and could not be reached, or refused.
    tried: Vec<String>,
    redirects: usize,
}

impl RedirectChain {
    /// A request that begins at the first server, or at one that is known to have the file.
    pub fn new(origin: RootTarget, known: Option<RootTarget>) -> RedirectChain {
        let to = known.unwrap_or_else(|| origin.clone());
        RedirectChain { origin, to, tried: Vec::new(), redirects: 0 }
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
        Ok(())
    }

    /// Goes back to the first server, and tells it which hosts have failed.
    ///
    /// # Errors
    /// The first server itself has failed (`error`), or there were too many redirects.
    pub fn go_back(&mut self, error: RequestError) -> RootResult<()> {
        if self.to.authority() == self.origin.authority() {
            return Err(error);
        }
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
        assert!(chain.go_back(failed()).is_err(), "the failure of the first server is that of the request");
    }

    #[test]
    fn a_circle_of_redirects_ends() {
        let mut chain = RedirectChain::new(target("head"), Some(target("m1")));
        assert!((0..REDIRECTS_MAX).all(|_| chain.follow(target("m2")).is_ok()));
        assert!(chain.follow(target("m2")).is_err());
    }
}
