-- What is at endpoints, compared with what should be.
CREATE TABLE audits (
    number INTEGER PRIMARY KEY,
    endpoint TEXT NOT NULL,
    -- A directory below that of the endpoint; empty for all of it.
    below TEXT NOT NULL,
    account TEXT NOT NULL,
    -- 0: it waits for a hub to list it; 1: done; 2: failed; 3: its dark files are to be deleted; 4: they are.
    state INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    ended INTEGER,
    listed INTEGER NOT NULL DEFAULT 0,
    missing INTEGER NOT NULL DEFAULT 0,
    wrong_size INTEGER NOT NULL DEFAULT 0,
    dark INTEGER NOT NULL DEFAULT 0,
    dark_bytes INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    -- A hub that lists has it for itself until then.
    not_before INTEGER NOT NULL DEFAULT 0,
    error TEXT
);

-- Some of what was found; `kind` is a word.
CREATE TABLE audit_findings (
    audit INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes INTEGER,
    file INTEGER,
    PRIMARY KEY (audit, at)
) WITHOUT ROWID;
