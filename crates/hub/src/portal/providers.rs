//! Providers where members sign in, and the roles that follow from their claims.

use authn::code_flow::{Provider, SignedIn};
use model::v1::hub::Role;

use crate::roles::Member;

/// A provider where members sign in, and the rules that make members of its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    /// Its name in URLs: letters, digits, hyphens.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// The provider.
    pub provider: Provider,
    /// The claim whose value is the name of the member.
    pub name_claim: String,
    /// The rules. The first rule that matches counts; a person without a matching rule is refused. If there are no rules, everybody is a
    /// user.
    pub members: Vec<MemberRule>,
}

/// A rule: the role and community of people with a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRule {
    /// The name of the claim.
    pub claim: String,
    /// The value of the claim, or a value in its list.
    pub value: String,
    /// Their role.
    pub role: Role,
    /// The community that they submit for; empty for any.
    pub community: String,
}

impl SignIn {
    /// The member for a person who has signed in.
    ///
    /// # Errors
    /// No rule matches, or a claim is missing.
    pub fn member(&self, signed_in: &SignedIn) -> Result<Member, String> {
        let claim = &self.name_claim;
        let owner = signed_in.text(claim).ok_or_else(|| {
            format!(
                "{} does not say your {claim}: an operator of the hub chooses another claim, or asks for its scope",
                self.title
            )
        })?;
        if self.members.is_empty() {
            return Ok(Member::user(owner, ""));
        }
        let rule = self.members.iter().find(|rule| signed_in.has(&rule.claim, &rule.value)).ok_or_else(|| {
            format!(
                "{owner} is known to {}, and is no member of this collaboration: ask an operator of the hub",
                self.title
            )
        })?;
        Ok(Member { role: rule.role, ..Member::user(owner, &rule.community) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sign_in(members: Vec<MemberRule>) -> SignIn {
        let provider = Provider {
            issuer: "https://idp.example".to_owned(),
            client_id: "hub".to_owned(),
            client_secret: None,
            scopes: Vec::new(),
        };
        SignIn { id: "idp".to_owned(), title: "Idp".to_owned(), provider, name_claim: "sub".to_owned(), members }
    }

    #[test]
    fn the_first_rule_that_matches_gives_role_and_community() {
        let rule = |value: &str, role, community: &str| MemberRule {
            claim: "groups".to_owned(),
            value: value.to_owned(),
            role,
            community: community.to_owned(),
        };
        let with_rules = sign_in(vec![rule("ops", Role::Operator, ""), rule("astro", Role::User, "astro")]);
        let who = |groups: &[&str]| SignedIn::from_claims(json!({"sub": "ann", "groups": groups}));
        let member = |sign_in: &SignIn, groups: &[&str]| sign_in.member(&who(groups));
        assert_eq!(member(&with_rules, &["astro"]).unwrap(), Member::user("ann", "astro"));
        assert_eq!(member(&with_rules, &["astro", "ops"]).unwrap().role, Role::Operator);
        assert!(member(&with_rules, &["other"]).unwrap_err().contains("no member of this collaboration"));
        assert_eq!(member(&sign_in(Vec::new()), &[]).unwrap(), Member::user("ann", ""));
        let by_mail = SignIn { name_claim: "email".to_owned(), ..sign_in(Vec::new()) };
        assert!(member(&by_mail, &[]).unwrap_err().contains("does not say your email"));
    }
}
