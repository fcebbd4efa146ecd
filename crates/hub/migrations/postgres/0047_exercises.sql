-- The runs of exercises on the board, as their controllers report them.
CREATE TABLE exercises (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    -- When the last report came, milliseconds since 1970.
    reported BIGINT NOT NULL,
    -- The member that stopped the run; empty if nobody did.
    stopped_by TEXT NOT NULL DEFAULT '',
    -- The last report, JSON.
    body TEXT NOT NULL
);
CREATE INDEX exercises_reported ON exercises (reported);
