//! Pages and charts as text: one self-contained HTML page for transfers, TCP tests or a path, and the few lines of a receipt.
//!
//! A page is made in three steps: [`read`](read()) recognises what files hold, [`stories`] joins what belongs together, and
//! [`page`](page()) writes it. [`html`] has what all pages need, for others who write pages.
//!
//! What this crate does not know: terminals, sockets, how a transfer runs. It reads the files that it is given, and returns text.

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
