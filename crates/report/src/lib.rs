//! Pages and charts as text: transfers, TCP tests and paths as one page each that goes anywhere by itself, and receipts in the
//! few lines that people read.
//!
//! A page is made in three steps: [`read`](read()) recognises what files hold, [`stories`] joins what belongs together, and
//! [`page`](page()) writes it. [`html`] has what all pages need, for others who write pages.
//!
//! What this crate does not know: terminals, sockets, how a transfer runs. It reads files where it is told to, and returns text.

mod course;
mod error;
mod format;
pub mod html;
mod page;
mod pairs;
pub mod path;
mod read;
pub mod receipt;
#[cfg(test)]
mod samples;
mod series;
mod story;
mod tcp;
mod transfer;

pub use error::Error;
pub use page::page;
pub use pairs::stories;
pub use read::{Found, Point, read};
pub use story::Story;
