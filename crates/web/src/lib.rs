//! HTTP for data transfer. Heads, framing, ranges, digests, WebDAV documents and third-party copy are parsed and written sans IO. One
//! blocking connection serves clients and servers, over TCP or TLS, and a client connects only to addresses that a guard allows.
//!
//! What this crate does not know: files, exports, keys and rights (the services know them), and HTTP/2 (a library speaks it).
//!
//! The target of a request becomes a path that cannot lead out of an export:
//!
//! ```
//! let target = web::target::parse("/data/run%207?x=1")?;
//! assert_eq!(target.path.as_bytes(), b"data/run 7");
//! assert!(web::target::parse("/data/%2e%2e/etc").is_err());
//! # Ok::<(), web::target::TargetError>(())
//! ```

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
pub mod metalink;
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
