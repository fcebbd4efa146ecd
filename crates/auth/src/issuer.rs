//! Trusted issuers of tokens, and the families of their tokens. Does not know tokens.

use model::name::RelPath;
use serde::Deserialize;

/// A trusted issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    /// Its name in rules.
    pub name: String,
    /// Its URL: the exact `iss` of its tokens.
    pub iss: String,
    /// Accepted `aud` values of its tokens, besides the node's audiences.
    pub audiences: Vec<String>,
    /// The family of its tokens; `None` for any.
    pub profile: Option<Profile>,
    /// The export that its scopes are for; `None` where the first component of a scope's path names it.
    pub export: Option<String>,
    /// The exports that its scopes can name; `None` for all.
    pub exports: Option<Vec<String>>,
    /// The path below the export that its scopes are relative to.
    pub path: RelPath,
    /// A file with its keys, for nodes that fetch none.
    pub jwks: Option<String>,
}

/// The family of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// WLCG Common JWT Profiles 1.x.
    Wlcg,
    /// SciTokens 2.x.
    SciTokens,
}

impl Profile {
    /// The audience that means everybody.
    pub(crate) fn anybody(self) -> &'static str {
        match self {
            Profile::Wlcg => "https://wlcg.cern.ch/jwt/v1/any",
            Profile::SciTokens => "ANY",
        }
    }
}
