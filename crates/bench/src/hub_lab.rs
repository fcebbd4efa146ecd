//! A hub in a lab: three sites behind one shared link, its mark, shares, changes of capacity, other traffic, deadlines, limits.

pub mod cases;
pub mod collaboration;
