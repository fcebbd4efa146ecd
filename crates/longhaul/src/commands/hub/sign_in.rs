//! `[[sign-in]]` of a hub's settings file: the providers at which people sign in to the portal.

use std::path::PathBuf;

use authn::code_flow::Provider;
use hub::portal::providers::{MemberRule, SignIn};
use model::v1::hub::Role;
use serde::Deserialize;

use crate::failure::Failure;

/// A provider, as the settings file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SignInTable {
    id: String,
    title: Option<String>,
    issuer: String,
    client_id: String,
    /// The file whose first line is the client's secret.
    client_secret_file: Option<PathBuf>,
    #[serde(default)]
    scopes: Vec<String>,
    /// The claim that is a member's name.
    #[serde(default = "subject")]
    name: String,
    #[serde(default)]
    member: Vec<MemberTable>,
}

/// The role and the community of the members whose claim has this value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MemberTable {
    claim: String,
    value: String,
    #[serde(default)]
    role: Role,
    #[serde(default)]
    community: String,
}

/// The claim that identifies a member: a provider never reassigns it (OpenID Connect Core 1.0, section 5.7).
fn subject() -> String {
    "sub".to_owned()
}

/// Reads a provider, with the secret from its file.
///
/// # Errors
/// The id or the issuer is invalid, or the file cannot be read.
pub fn read(table: &SignInTable) -> Result<SignIn, Failure> {
    let fail = |why: String| Failure::usage(format!("[[sign-in]] {}: {why}", table.id));
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_word(&table.id) {
        return Err(fail("id is letters, digits and hyphens: it is a part of URLs".to_owned()));
    }
    if !table.issuer.starts_with("https://") {
        return Err(fail(format!("issuer = {:?} is not https://…: write it as the provider does", table.issuer)));
    }
    let secret = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| fail(format!("{}: {error}", path.display())))?;
        Ok::<_, Failure>(text.lines().next().unwrap_or_default().to_owned())
    };
    let member = |rule: &MemberTable| MemberRule {
        claim: rule.claim.clone(),
        value: rule.value.clone(),
        role: rule.role,
        community: rule.community.clone(),
    };
    Ok(SignIn {
        id: table.id.clone(),
        title: table.title.clone().unwrap_or_else(|| table.id.clone()),
        provider: Provider {
            issuer: table.issuer.clone(),
            client_id: table.client_id.clone(),
            client_secret: table.client_secret_file.as_ref().map(secret).transpose()?,
            scopes: table.scopes.clone(),
        },
        name_claim: table.name.clone(),
        members: table.member.iter().map(member).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SignIn, Failure> {
        read(&toml::from_str(text).unwrap())
    }

    #[test]
    fn a_provider_is_read_with_its_members() {
        let text = "id = \"idp\"\nissuer = \"https://idp.example\"\nclient-id = \"hub\"\nscopes = [\"email\"]\nname = \"email\"\n\
                    [[member]]\nclaim = \"groups\"\nvalue = \"ops\"\nrole = \"operator\"";
        let read = parse(text).unwrap();
        assert_eq!((read.title.as_str(), read.name_claim.as_str()), ("idp", "email"));
        assert_eq!(read.members[0].role, Role::Operator);
    }

    #[test]
    fn errors_name_the_wrong_setting() {
        let refused = |text: &str| parse(text).unwrap_err().message;
        let rest = "issuer = \"https://idp.example\"\nclient-id = \"hub\"";
        assert!(refused(&format!("id = \"a b\"\n{rest}")).contains("letters, digits and hyphens"));
        assert!(refused("id = \"a\"\nissuer = \"http://x\"\nclient-id = \"h\"").contains("is not https://"));
        assert!(refused(&format!("id = \"a\"\nclient-secret-file = \"/none\"\n{rest}")).contains("/none"));
    }
}
