//! Randomness of the system, for keys and their names.

use crate::failure::Failure;

/// Random bytes of the system.
///
/// # Errors
/// The system gives none.
pub fn random<const N: usize>() -> Result<[u8; N], Failure> {
    engine::identity::random().map_err(|_| Failure::local("the system gives no random numbers"))
}
