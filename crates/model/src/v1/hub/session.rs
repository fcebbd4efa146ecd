//! The member that a request is authenticated as, and the providers to sign in with.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who one is to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// The name under which jobs are submitted.
    pub owner: String,
    /// What one may do.
    pub role: String,
    /// The community; empty for all of them.
    pub community: String,
}

/// Where people sign in, beside showing an access key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInProviders {
    /// The providers, in the order in which the operator names them.
    pub providers: Vec<SignInProvider>,
}

/// An OpenID Connect provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInProvider {
    /// What it is in addresses: a browser that goes to `/api/v1/sign-in/ID` is sent there.
    pub id: String,
    /// What people call it.
    pub title: String,
}
