//! A watch on a mesh of six sites in a lab: faults are put into the mesh, and the alarms of the watch are compared with them. All times of
//! the watch's judge are divided by 60: a minute becomes a second, and a day 24 minutes.

pub mod clock;
pub mod dashboard;
pub mod faults;
pub mod mesh;
pub mod trial;
pub mod year;
