-- Who hears by HTTP of what happens to names.
CREATE TABLE webhooks (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    -- JSON lists: kinds of events, patterns of names; all where they are empty.
    kinds TEXT NOT NULL,
    names TEXT NOT NULL,
    secret TEXT NOT NULL,
    account TEXT NOT NULL,
    created BIGINT NOT NULL,
    -- The last event of the history that it has heard, or was not for it.
    heard BIGINT NOT NULL,
    told BIGINT NOT NULL DEFAULT 0,
    failures BIGINT NOT NULL DEFAULT 0,
    -- It is told nothing before; a hub that tells it has it for itself until then.
    not_before BIGINT NOT NULL DEFAULT 0,
    error TEXT
);
