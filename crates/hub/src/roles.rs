//! Members of a hub and their roles: a key of a hub gives a role, as a key of a node gives rights to an export.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use auth::x509::{Authorities, AuthoritySource, Identity};
use auth::{AccessKey, Grant, Policy, Rights};
use authn::{Credential, Credentials, Principal};
use model::v1::hub::{Collaboration, Community, Role};
use model::{Fault, Refusal, RelPath};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::runtime::Handle;

use crate::database::Database;
use crate::database::roles::KeyGrant;
use crate::time;

/// A principal with its role at the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name under which jobs are submitted.
    pub owner: String,
    /// Its role.
    pub role: Role,
    /// The community that it submits for; empty for any.
    pub community: String,
    /// The identity of its certificate, if it has authenticated with one.
    pub certificate: Option<Arc<Identity>>,
}

/// The community of a certificate none of whose virtual organisations belongs to a community. It is used only if some community names
/// virtual organisations.
const UNCLAIMED: &str = "default";

/// The community of each virtual organisation.
type Vos = BTreeMap<String, String>;

impl Member {
    /// A user of a community.
    pub fn user(owner: &str, community: &str) -> Member {
        Member { owner: owner.to_owned(), role: Role::User, community: community.to_owned(), certificate: None }
    }

    /// The distinguished name for FTS: that of the certificate as the grid writes it, or one made from the owner's name.
    pub fn distinguished_name(&self) -> String {
        if let Some(identity) = &self.certificate {
            return identity.grid_name.clone();
        }
        if self.owner.starts_with('/') { self.owner.clone() } else { format!("/CN={}", self.owner) }
    }

    /// Whether it may submit for a community.
    pub fn may_submit_for(&self, community: &str) -> bool {
        self.community.is_empty() || self.community == community || self.role == Role::Admin
    }

    /// Whether it may see and change the jobs of an owner.
    pub fn may_change(&self, owner: &str, community: &str) -> bool {
        self.owner == owner || self.role >= Role::Operator && (self.community.is_empty() || self.community == community)
    }

    /// Refuses a member whose role is lower than `role`.
    ///
    /// # Errors
    /// The member's role is lower.
    pub fn require(&self, role: Role) -> Result<(), Refusal> {
        if self.role >= role {
            return Ok(());
        }
        let reason =
            format!("this needs the role {}, and {} has the role {}", role.word(), self.owner, self.role.word());
        Err(Refusal::new(Fault::Auth, reason))
    }
}

/// The credentials that a hub accepts: its grants, certificates, tokens, and the role of anonymous clients.
pub struct HubCredentials {
    database: Database,
    runtime: Handle,
    /// The reasons of banned users, by their distinguished names.
    banned: ArcSwap<HashMap<String, String>>,
    policy: Arc<Policy>,
    anonymous: Option<Role>,
    vos: ArcSwap<Vos>,
    authorities: Option<Arc<AuthoritySource>>,
}

impl HubCredentials {
    /// The credentials of a hub with the grants of a database; clients without a credential have the role `anonymous`, if there is one.
    pub fn new(database: Database, policy: Arc<Policy>, anonymous: Option<Role>) -> HubCredentials {
        HubCredentials {
            database,
            runtime: Handle::current(),
            banned: ArcSwap::default(),
            policy,
            anonymous,
            vos: ArcSwap::default(),
            authorities: None,
        }
    }

    /// Sets the authorities whose client certificates are accepted.
    #[must_use]
    pub fn with_authorities(self, authorities: Option<Arc<AuthoritySource>>) -> HubCredentials {
        HubCredentials { authorities, ..self }
    }

    /// The authorities whose client certificates are accepted, if any.
    pub fn authorities(&self) -> Option<Arc<Authorities>> {
        self.authorities.as_ref().map(|source| source.current(time::now() / 1000))
    }

    /// Reads the communities of virtual organisations from a description.
    pub fn describe(&self, collaboration: &Collaboration) {
        let vos = |(name, community): (&String, &Community)| {
            community.vos.iter().map(|vo| (vo.clone(), name.clone())).collect::<Vec<_>>()
        };
        self.vos.store(Arc::new(collaboration.communities.iter().flat_map(vos).collect()));
    }

    /// The member for a principal.
    ///
    /// # Errors
    /// The principal is unknown to the hub, or banned.
    pub async fn member(&self, principal: &Principal) -> Result<Member, Refusal> {
        self.require_not_banned(self.identify(principal).await?)
    }

    /// Refuses a banned member.
    ///
    /// # Errors
    /// The member is banned.
    pub fn require_not_banned(&self, member: Member) -> Result<Member, Refusal> {
        match self.banned.load().get(&member.distinguished_name()) {
            Some(reason) => Err(Refusal::new(Fault::Auth, format!("{} is banned: {reason}", member.owner))),
            None => Ok(member),
        }
    }

    /// Reads the banned users again.
    ///
    /// # Errors
    /// The database cannot be read: the former list stays in force.
    pub async fn read_banned(&self) -> Result<(), Refusal> {
        let banned = self.database.banned_users().await.map_err(unreadable)?;
        self.banned.store(Arc::new(banned.into_iter().map(|user| (user.dn, user.reason)).collect()));
        Ok(())
    }

    /// The member for a principal, even if banned.
    async fn identify(&self, principal: &Principal) -> Result<Member, Refusal> {
        match &principal.credential {
            Credential::Key { id } => {
                let grant = self.database.role_grant(id).await.map_err(unreadable)?;
                let grant =
                    grant.ok_or_else(|| Refusal::new(Fault::Auth, "there is no such key at this hub any more"))?;
                let owner = if grant.name.is_empty() { format!("key {}", grant.id) } else { grant.name };
                Ok(Member { owner, role: grant.role, community: grant.community, certificate: None })
            }
            Credential::None => {
                let role = self.anonymous.ok_or_else(|| {
                    Refusal::new(Fault::Auth, "say who you are: LONGHAUL_KEY holds a key that longhaul hub grant made")
                })?;
                Ok(Member { role, ..Member::user("anonymous", "") })
            }
            Credential::Certificate { identity } => {
                let community = community(&self.vos.load(), identity);
                Ok(Member { certificate: Some(Arc::clone(identity)), ..Member::user(&identity.name, &community) })
            }
            Credential::Token { .. } | Credential::Macaroon { .. } => Ok(Member::user(&principal.access.who(), "")),
        }
    }
}

/// The community of a certificate: the first one that claims one of its virtual organisations.
fn community(vos: &Vos, identity: &Identity) -> String {
    match identity.attributes.iter().find_map(|one| vos.get(&one.vo)) {
        Some(community) => community.clone(),
        None if vos.is_empty() => String::new(),
        None => UNCLAIMED.to_owned(),
    }
}

fn unreadable(error: crate::database::DatabaseError) -> Refusal {
    Refusal::new(Fault::Local, format!("the grants cannot be read: {error}"))
}

impl Credentials for HubCredentials {
    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy)
    }

    fn anonymous(&self) -> Option<Rights> {
        None
    }

    fn grant_of_key(&self, key: &AccessKey) -> Result<Grant, Refusal> {
        let id = model::hex::encode(&key.id);
        let none = || Refusal::new(Fault::Auth, "there is no such key at this hub, or it has expired");
        // Authentication runs on a thread that may block.
        let found = self.runtime.block_on(self.database.role_grant(&id)).map_err(unreadable)?.ok_or_else(none)?;
        let KeyGrant { secret_sha256, role, .. } = &found;
        let digest = model::hex::encode(&Sha256::digest(key.expose_secret()));
        if !bool::from(digest.as_bytes().ct_eq(secret_sha256.as_bytes())) {
            return Err(none());
        }
        if found.expires.is_some_and(|at| at <= time::now()) {
            return Err(none());
        }
        Ok(Grant::new(
            key.id,
            key.expose_secret(),
            role.word().to_owned(),
            &RelPath::root(),
            Rights::Read,
            found.created / 1000,
        ))
    }

    /// The role of a member decides what it may do, not its rights at an export.
    fn admits_all_known(&self) -> bool {
        true
    }

    fn is_delegated(&self, _: &Grant) -> bool {
        false
    }

    fn macaroon_key(&self) -> Result<[u8; 32], Refusal> {
        Err(Refusal::new(Fault::Config, "a hub makes no macaroons"))
    }

    fn is_valid(&self, _: &str) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::x509::VomsAttributes;

    #[test]
    fn a_higher_role_has_the_rights_of_the_lower_ones() {
        let user = Member::user("ann", "astro");
        let operator = Member { role: Role::Operator, ..Member::user("op", "") };
        assert!(user.may_submit_for("astro") && !user.may_submit_for("other") && operator.may_submit_for("other"));
        assert!(user.may_change("ann", "astro") && !user.may_change("bob", "astro") && operator.may_change("bob", "x"));
        assert!(operator.require(Role::User).is_ok() && operator.require(Role::Admin).is_err());
        let reason = user.require(Role::Operator).unwrap_err().reason;
        assert_eq!(reason, "this needs the role operator, and ann has the role user");
    }

    #[test]
    fn a_certificate_gets_the_community_that_names_its_virtual_organisation() {
        let attributes = |vo: &str| VomsAttributes {
            vo: vo.to_owned(),
            fqans: vec![format!("/{vo}")],
            server: "/CN=s".to_owned(),
            expires: 1,
        };
        let identity = |vos: &[&str]| Identity {
            name: "CN=ann".to_owned(),
            grid_name: "/CN=ann".to_owned(),
            proxies: 1,
            is_limited: false,
            expires: 1,
            attributes: vos.iter().map(|vo| attributes(vo)).collect(),
            refused_attributes: Vec::new(),
        };
        let vos = Vos::from([("atlas".to_owned(), "one".to_owned()), ("cms".to_owned(), "two".to_owned())]);
        assert_eq!(community(&vos, &identity(&["cms", "atlas"])), "two");
        assert_eq!(community(&vos, &identity(&["lhcb", "atlas"])), "one");
        assert_eq!(
            community(&vos, &identity(&["one"])),
            UNCLAIMED,
            "the name of a community is not a virtual organisation"
        );
        assert_eq!(community(&vos, &identity(&[])), UNCLAIMED);
        assert_eq!(community(&Vos::new(), &identity(&["cms"])), "");
        let ended = identity(&["cms"]).without_expired_attributes(2);
        assert_eq!((ended.attributes.len(), ended.refused_attributes.len()), (0, 1));
        assert_eq!(ended.without_expired_attributes(2), ended);
    }
}
