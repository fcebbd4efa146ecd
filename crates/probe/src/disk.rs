//! What a disk gives: rates against size and workers, caches that end, flushes, small files.
