//! A watch on a mesh of six sites in a lab: faults are put into the mesh, and the reports of the watch are compared with them. The times of the
//! judge are divided by 60: a minute is a second, and a day is 24 minutes.

pub mod clock;
pub mod dashboard;
pub mod faults;
pub mod mesh;
pub mod trial;
pub mod year;
