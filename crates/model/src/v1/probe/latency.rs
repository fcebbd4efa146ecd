//! What a latency test found.
