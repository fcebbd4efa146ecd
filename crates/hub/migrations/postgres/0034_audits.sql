-- What is at endpoints, compared with what should be.
CREATE TABLE audits (
    number BIGINT PRIMARY KEY,
    endpoint TEXT NOT NULL,
    -- A directory below that of the endpoint; empty for all of it.
    below TEXT NOT NULL,
    account TEXT NOT NULL,
    -- 0: it waits for a hub to list it; 1: done; 2: failed; 3: its dark files are to be deleted; 4: they are.
    state BIGINT NOT NULL,
    begun BIGINT NOT NULL,
    ended BIGINT,
    listed BIGINT NOT NULL DEFAULT 0,
    missing BIGINT NOT NULL DEFAULT 0,
    wrong_size BIGINT NOT NULL DEFAULT 0,
    dark BIGINT NOT NULL DEFAULT 0,
    dark_bytes BIGINT NOT NULL DEFAULT 0,
    deleted BIGINT NOT NULL DEFAULT 0,
    -- A hub that lists has it for itself until then.
    not_before BIGINT NOT NULL DEFAULT 0,
    error TEXT
);

-- Some of what was found; `kind` is a word.
CREATE TABLE audit_findings (
    audit BIGINT NOT NULL,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes BIGINT,
    file BIGINT,
    PRIMARY KEY (audit, at)
);
