//! The member that a request is authenticated as, and the providers to sign in with.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The member that the request is authenticated as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// The name under which jobs are submitted.
    pub owner: String,
    /// The role of the member.
    pub role: String,
    /// The community; empty for all of them.
    pub community: String,
}

/// The providers with which people can sign in instead of an access key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInProviders {
    /// The providers, in the order in which the operator names them.
    pub providers: Vec<SignInProvider>,
}

/// An OpenID Connect provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInProvider {
    /// The id of the provider in URLs: `/api/v1/sign-in/ID` redirects a browser to the provider.
    pub id: String,
    /// The name shown to people.
    pub title: String,
}
