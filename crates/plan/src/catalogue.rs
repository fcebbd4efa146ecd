//! The catalogue of sites: what each site says about its storage and its network, whether that can be true, and what all sites together say.
//!
//! Does not know: web forms, mail, clocks. A date is an argument, in days since 1970.

mod generated;
mod questionnaire;
mod round;
mod statistics;
mod validation;

pub use generated::generated_sites;
pub use questionnaire::{Answer, CatalogueQuestion, Kind, QUESTIONS, SiteRecord};
pub use round::{Reminder, Round, RoundState};
pub use statistics::{Statistics, statistics};
pub use validation::{AnswerFinding, Measured, Severity, validate};
