//! When the kernel seals an answer (kTLS) in place of the TLS library, so that the file goes by `sendfile`.

use auth::approved;
use web::Conn;
use web::conn::KERNEL_SEALED_BYTES_MAX;

/// The shortest answer that the kernel seals: the connection ends with it, and a client that wants more needs another handshake and another
/// slow start: two round trips and more.
const ANSWER_BYTES_MIN: u64 = 1 << 30;

/// Whether the kernel is to seal an answer with a body of this length. Not where only approved ciphers may be used: whether the kernel's are
/// of an approved module is not known here.
pub(crate) fn is_for_kernel(conn: &Conn, bytes: u64) -> bool {
    let fits = (ANSWER_BYTES_MIN..KERNEL_SEALED_BYTES_MAX).contains(&bytes);
    fits && !approved::is_restricted() && conn.can_kernel_seal()
}
