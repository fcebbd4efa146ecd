//! Measurements of a hub in a lab of three sites behind one shared link: its high-water mark, shares, changes of capacity, other
//! traffic, deadlines, limits.

pub mod cases;
pub mod collaboration;
