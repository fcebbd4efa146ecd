//! The protocol of XRootD (`root://`), sans IO: frames, requests and answers of both roles, the order of a login, pages with their
//! checksums, and the keys of third-party copies.
//!
//! Sources: the protocol specification 5.2.0 of XRootD, and the behaviour of its clients and servers from 5.5 on. All numbers are
//! big-endian.
//!
//! What this crate does not know: sockets, TLS, files, exports, keys and rights.
//!
//! A request is a head of 24 bytes and a payload:
//!
//! ```
//! use xroot::{RootRequest, RequestHead, StreamId};
//!
//! let bytes = RootRequest::Ping.to_bytes(StreamId([0, 1]));
//! let (head, payload) = bytes.split_first_chunk().unwrap();
//! let head = RequestHead::parse(head)?;
//! assert_eq!(RootRequest::parse(&head, payload)?, RootRequest::Ping);
//! # Ok::<(), xroot::Malformed>(())
//! ```

pub mod answer;
pub mod attributes;
mod bytes;
pub mod codes;
pub mod credentials;
pub mod entry;
mod error;
pub mod fuzzing;
pub mod head;
pub mod limits;
pub mod login;
pub mod pages;
pub mod place;
pub mod request;
pub mod third_party;
pub mod url;

pub use answer::{AnswerHead, RootAnswer};
pub use codes::{ErrorCode, QueryKind, RequestCode, Status};
pub use error::Malformed;
pub use head::{RequestHead, StreamId};
pub use place::RootPath;
pub use request::RootRequest;
pub use url::RootUrl;
