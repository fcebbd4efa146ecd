//! What a disk test found.
