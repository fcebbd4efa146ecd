//! Viewers: members of the hub see everything; anonymous clients see what the configuration shows to their network, within a rate.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use authn::tower::Caller;
use model::v1::hub::Role;
use parking_lot::Mutex;
use web::Refused;

use crate::config::{Config, Show};
use crate::mesh::TestKind;

/// The largest number of addresses whose requests are counted.
const COUNTED_MAX: usize = 10_000;
const MINUTE: Duration = Duration::from_secs(60);

/// A client, by what it may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// A member, who sees everything.
    Member {
        /// The member's name.
        name: String,
        /// The member's role.
        role: Role,
    },
    /// An anonymous client, with what is shown to its network.
    Anonymous(Vec<Show>),
}

/// Counts the requests of anonymous clients.
#[derive(Debug, Default)]
pub struct Viewers {
    /// The beginning of the current minute of each address, and its requests since then.
    requests: Mutex<HashMap<IpAddr, (Instant, u32)>>,
}

impl Viewers {
    /// The viewer for a caller, counted as one request.
    ///
    /// # Errors
    /// Nothing is shown to its network, or it sends too many requests.
    pub fn viewer(&self, caller: &Caller, config: &Config) -> Result<Viewer, Refused> {
        if let Some((name, role)) = &caller.principal {
            return Ok(Viewer::Member { name: name.clone(), role: *role });
        }
        let peer = caller.peer.to_canonical();
        let is_shown =
            |show: &&Show| show.networks.is_empty() || show.networks.iter().any(|network| network.contains(&peer));
        let shown: Vec<Show> = config.shows.iter().filter(is_shown).cloned().collect();
        let Some(per_minute) = shown.iter().map(|show| show.per_minute).max() else {
            let reason = "this watch shows nothing to anonymous clients: show an access key, or ask its operator";
            return Err(Refused::new(401, reason).with("WWW-Authenticate", "Bearer realm=\"longhaul\""));
        };
        if !self.count(peer, per_minute) {
            let reason = format!("more than {per_minute} requests a minute from one address");
            return Err(Refused::new(429, reason).with("Retry-After", "60"));
        }
        Ok(Viewer::Anonymous(shown))
    }

    fn count(&self, peer: IpAddr, per_minute: u32) -> bool {
        let mut requests = self.requests.lock();
        if requests.len() >= COUNTED_MAX && !requests.contains_key(&peer) {
            requests.retain(|_, (since, _)| since.elapsed() < MINUTE);
            if requests.len() >= COUNTED_MAX {
                return false;
            }
        }
        let (since, count) = requests.entry(peer).or_insert((Instant::now(), 0));
        if since.elapsed() >= MINUTE {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        *count <= per_minute
    }
}

impl Viewer {
    /// Refuses a viewer with less than a role.
    ///
    /// # Errors
    /// The viewer's role is lower.
    pub fn require(&self, wanted: Role) -> Result<(), Refused> {
        match self {
            Viewer::Member { role, .. } if *role >= wanted => Ok(()),
            Viewer::Member { name, role } => {
                Err(Refused::new(403, format!("this needs the role {}, and {name} has {}", wanted.word(), role.word())))
            }
            Viewer::Anonymous(_) => {
                let refused = Refused::new(401, format!("this needs the role {}: show an access key", wanted.word()));
                Err(refused.with("WWW-Authenticate", "Bearer realm=\"longhaul\""))
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Viewer::Member { name, .. } => name.clone(),
            Viewer::Anonymous(_) => "an anonymous client".to_owned(),
        }
    }

    /// Whether it may see a place.
    pub fn sees_place(&self, name: &str) -> bool {
        self.sees(name, name, None)
    }

    /// Whether it may see a test of a pair.
    pub fn sees(&self, from: &str, to: &str, test: Option<TestKind>) -> bool {
        let Viewer::Anonymous(shows) = self else { return true };
        shows.iter().any(|show| {
            let is_place = |name: &str| {
                show.places.is_empty() || show.places.iter().any(|prefix| name.starts_with(prefix.as_str()))
            };
            let is_test =
                test.is_none_or(|test| show.tests.is_empty() || show.tests.iter().any(|word| word == test.word()));
            is_place(from) && is_place(to) && is_test
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWS: &str = "[[show]]\nto = \"ska\"\nnetworks = [\"192.0.2.0/24\"]\nplaces = [\"ska-\"]\ntests = [\"latency\"]\nper-minute = 3\n";

    fn caller(peer: &str, member: Option<Role>) -> Caller {
        Caller { peer: peer.parse().unwrap(), principal: member.map(|role| ("noc".into(), role)) }
    }

    #[test]
    fn an_anonymous_client_sees_only_what_is_shown_to_its_network() {
        let viewers = Viewers::default();
        let config = Config::parse(SHOWS).unwrap();
        let anonymous = viewers.viewer(&caller("192.0.2.7", None), &config).unwrap();
        assert!(anonymous.sees("ska-a", "ska-b", Some(TestKind::Latency)));
        assert!(
            !anonymous.sees("ska-a", "ours", Some(TestKind::Latency))
                && !anonymous.sees("ska-a", "ska-b", Some(TestKind::Path))
        );
        assert_eq!(anonymous.require(Role::User).unwrap_err().status, 401);
        let mapped = viewers.viewer(&caller("::ffff:192.0.2.7", None), &config);
        assert!(mapped.is_ok(), "the same address");
        assert!(viewers.viewer(&caller("192.0.2.7", None), &config).is_ok());
        assert_eq!(viewers.viewer(&caller("192.0.2.7", None), &config).unwrap_err().status, 429);
        assert_eq!(viewers.viewer(&caller("198.51.100.1", None), &config).unwrap_err().status, 401);
        let member = viewers.viewer(&caller("198.51.100.1", Some(Role::User)), &config).unwrap();
        assert!(member.sees("ska-a", "ours", None) && member.require(Role::Operator).unwrap_err().status == 403);
    }
}
