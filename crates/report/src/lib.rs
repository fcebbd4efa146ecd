//! Pages and charts as text: one self-contained HTML page for transfers, TCP tests or a path, and the few lines of a receipt.
//!
//! A page is made in three steps: [`read`](read()) recognises the content of files, [`stories`] joins the files of one transfer, and
//! [`page`](page()) writes the page. [`html`] has the frame of all pages, for other crates that write pages.
//!
//! What this crate does not know: terminals, sockets, how a transfer runs. It reads the given files, and returns text.

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
mod timeline;
mod transfer;

pub use error::Error;
pub use page::page;
pub use pairs::stories;
pub use read::{Point, ReportInput, read};
pub use story::Story;
