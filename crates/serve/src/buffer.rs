//! One buffer for each thread that moves bytes, at the start of a page, kept as long as the thread.

use std::cell::RefCell;

use sys::files::Aligned;

/// Bytes of a thread's buffer.
pub const BUFFER_BYTES: usize = 512 << 10;

thread_local! {
    static BUFFER: RefCell<Option<Aligned>> = const { RefCell::new(None) };
}

/// Works with the thread's buffer. Whoever is inside already gets another one.
pub fn with<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut kept = BUFFER.with_borrow_mut(Option::take).unwrap_or_else(|| Aligned::zeroed(BUFFER_BYTES));
    let out = work(&mut kept);
    BUFFER.with_borrow_mut(|place| *place = Some(kept));
    out
}
