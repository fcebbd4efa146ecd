//! What a path test found.
