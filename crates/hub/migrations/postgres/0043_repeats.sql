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
    at BIGINT NOT NULL,
    next_run BIGINT NOT NULL,
    created BIGINT NOT NULL,
    -- What became of the last time: a job, or why there is none.
    last_job TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
);
CREATE INDEX repeats_due ON repeats (next_run);
