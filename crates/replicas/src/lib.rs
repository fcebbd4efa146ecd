//! The placement of replicas: names of data ([`DataName`]), expressions over the attributes of endpoints ([`Expression`]), the
//! path of a name at an endpoint ([`Naming`]), the choice of endpoints for a rule ([`choose`]), and the comparison of an
//! endpoint with the catalogue ([`Audit`]).
//!
//! Sizes are in bytes. What this crate does not know: databases, clocks, sockets, randomness. Everything is a function of its
//! arguments, so that a simulator in virtual time steps the code that a hub runs.
//!
//! ```
//! use replicas::{Attributes, Expression};
//!
//! let expression: Expression = r"region=eu&tier<2\cern".parse().unwrap();
//! let attributes = Attributes::from([("region".into(), "eu".into()), ("tier".into(), "1".into())]);
//! assert!(expression.matches("ral", &attributes));
//! assert!(!expression.matches("cern", &attributes));
//! ```

mod audit;
mod choice;
mod expression;
mod name;
mod naming;

pub use audit::{Audit, Difference, KnownCopy, ListedFile, YOUNG_MS};
pub use choice::{Candidate, Choice, Shortage, check_spread, choose};
pub use expression::{Attributes, Expression, ExpressionError, matches_pattern};
pub use name::{DataName, NAME_BYTES_MAX, NameError, SCOPE_BYTES_MAX, check_scope};
pub use naming::Naming;
