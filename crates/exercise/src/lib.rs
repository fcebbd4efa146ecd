//! Exercises of a collaboration: load from one file, searches for parameters, score cards, data challenges.
//!
//! [`Exercise::read`] reads and checks a file; [`feasible::shortfalls`] says what its goals ask too much of; [`run`](run::run) runs it over the APIs of
//! nodes, agents and a hub, and returns a [`RunRecord`](record::RunRecord), from which [`page`] makes reports.
//!
//! What this crate does not know: command lines, labs, where keys come from, how a node moves data.
//!
//! ```
//! use exercise::Exercise;
//!
//! let text = exercise::shipped("flood").map(|shipped| shipped.text).unwrap_or_default();
//! let exercise = Exercise::read(text)?;
//! assert_eq!(exercise.flows().count(), 200);
//! # Ok::<(), exercise::FileProblem>(())
//! ```

pub mod agent;
mod caps;
pub mod data_set;
pub mod feasible;
mod file;
pub mod grade;
pub mod page;
pub mod record;
pub mod run;
pub mod score;
pub mod search;

pub use file::{
    ClassFiles, Exercise, ExerciseFlow, ExerciseLink, ExercisePhase, ExerciseSite, FaultKind, FileProblem, FlowClass,
    FlowTool, LabNetwork, Medium, PhaseFault, SHIPPED, Search, ShippedExercise, SiteGoal, shipped,
};
