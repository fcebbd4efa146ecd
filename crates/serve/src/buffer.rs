//! One page-aligned buffer for each thread that moves bytes, kept as long as the thread lives.

use std::cell::RefCell;

use sys::files::Aligned;

/// Bytes of a thread's buffer.
pub const BUFFER_BYTES: usize = 512 << 10;

thread_local! {
    static BUFFER: RefCell<Option<Aligned>> = const { RefCell::new(None) };
}

/// Calls `work` with the thread's buffer. A nested call gets a new buffer.
pub fn with<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut kept = BUFFER.with_borrow_mut(Option::take).unwrap_or_else(|| Aligned::zeroed(BUFFER_BYTES));
    let out = work(&mut kept);
    BUFFER.with_borrow_mut(|place| *place = Some(kept));
    out
}
