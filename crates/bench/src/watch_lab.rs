//! A watch on a mesh of six sites in a lab: faults are put into it, and what the watch says is held against what is true. Times of the judge are a
//! sixtieth, so that a minute is a second and a day 24 minutes.

pub mod clock;
pub mod dashboard;
pub mod faults;
pub mod mesh;
pub mod trial;
pub mod year;
