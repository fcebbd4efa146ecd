//! HTTP as data movers speak it: heads, framing, ranges, digests, WebDAV documents and the words of third-party copy,
//! sans IO; and one blocking connection of either role over TCP or TLS, with a client that dials where a guard allows.
//!
//! What this crate does not know: files, exports, keys, who may do what (the services'), and HTTP/2 (a library's).

pub mod api_client;
pub mod body;
pub mod client;
pub mod conditions;
pub mod conn;
pub mod copy;
pub mod date;
pub mod dav;
pub mod digest;
pub mod form;
pub mod fuzzing;
pub mod head;
pub mod headers;
pub mod json;
pub mod markup;
pub mod method;
pub mod openapi;
pub mod openmetrics;
pub mod parts;
pub mod post;
pub mod range;
mod refused;
pub mod routes;
pub mod scitag;
pub mod target;
pub mod url;

pub use self::url::HttpUrl;
pub use body::Framing;
pub use client::{Client, ClientError, Dialer};
pub use conn::{Body, Conn, ReadError};
pub use head::{HeadError, Request, Response};
pub use headers::Headers;
pub use method::Method;
pub use refused::Refused;
