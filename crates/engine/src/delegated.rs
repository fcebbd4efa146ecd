//! The mover's side of a delegated session: its streams join at this node, which reads or writes the files and asks the coordinator
//! (the node that the client connected to) for every step. See [`crate::movers`] for the coordinator's side.
//!
//! What this module does not know: the job's machine, which runs at the coordinator, and access control.

mod channel;
mod reader;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::{Writer, WriterSide};
