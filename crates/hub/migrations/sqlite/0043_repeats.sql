-- Orders that are submitted again every day or week.
CREATE TABLE repeats (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    community TEXT NOT NULL,
    -- The order, JSON.
    body TEXT NOT NULL,
    -- `day` or `week`.
    every TEXT NOT NULL,
    -- The time of the day, milliseconds after midnight, UTC.
    at INTEGER NOT NULL,
    next_run INTEGER NOT NULL,
    created INTEGER NOT NULL,
    -- What became of the last time: a job, or why there is none.
    last_job TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
);
CREATE INDEX repeats_due ON repeats (next_run);
