//! A session that another node has lent to this one: its streams join here, this side reads or writes the files, and asks
//! the head (the node that the client came to) for every step. See [`crate::movers`] for the head's side of it.
//!
//! What this room does not know: the job's machine, which runs at the head, and who may do what.

mod reader;
mod talk;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::{Writer, Writing};
