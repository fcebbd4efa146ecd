-- The queue of a hub. Times are milliseconds since 1970; sizes are bytes. What it means: docs/design/hub.md.

CREATE TABLE counters (name TEXT PRIMARY KEY, next BIGINT NOT NULL);

CREATE TABLE descriptions (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    community TEXT NOT NULL,
    name TEXT NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT,
    secret_sha256 TEXT NOT NULL
);

CREATE TABLE queues (
    id BIGINT PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    community TEXT NOT NULL,
    activity TEXT NOT NULL,
    owner TEXT NOT NULL,
    priority BIGINT NOT NULL,
    -- By when its files are promised to be there; 0 where nothing is promised.
    deadline BIGINT NOT NULL,
    queued BIGINT NOT NULL DEFAULT 0,
    queued_bytes BIGINT NOT NULL DEFAULT 0,
    running BIGINT NOT NULL DEFAULT 0,
    running_bytes BIGINT NOT NULL DEFAULT 0,
    UNIQUE (source, target, community, activity, owner, priority, deadline)
);

-- A file with several sources has a row for each, and so has each hop of a multi-hop job: `file_rows` counts those, from `first_file` on;
-- `files` and what follows count files.
CREATE TABLE jobs (
    number BIGINT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    community TEXT NOT NULL,
    activity TEXT NOT NULL,
    priority BIGINT NOT NULL,
    kind BIGINT NOT NULL,
    first_file BIGINT NOT NULL,
    file_rows BIGINT NOT NULL,
    files BIGINT NOT NULL,
    queued BIGINT NOT NULL,
    running BIGINT NOT NULL DEFAULT 0,
    done BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    cancelled BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL,
    moved BIGINT NOT NULL DEFAULT 0,
    submitted BIGINT NOT NULL,
    started BIGINT,
    ended BIGINT,
    deadline BIGINT,
    -- 1 once somebody has ended it: what runs is not tried again.
    ending BIGINT NOT NULL DEFAULT 0,
    options TEXT NOT NULL,
    metadata TEXT NOT NULL,
    digest TEXT NOT NULL,
    -- What only FTS's words know of it, JSON.
    fts TEXT
);
CREATE INDEX jobs_unended ON jobs (number) WHERE ended IS NULL;
CREATE INDEX jobs_ending ON jobs (number) WHERE ending = 1 AND ended IS NULL;
CREATE INDEX jobs_of_owner ON jobs (owner, number);

-- What changes is narrow, and apart from what does not: the index of what is ready stays small.
CREATE TABLE files (
    id BIGINT PRIMARY KEY,
    job BIGINT NOT NULL,
    at BIGINT NOT NULL,
    queue BIGINT NOT NULL,
    state BIGINT NOT NULL,
    attempt BIGINT NOT NULL DEFAULT 0,
    not_before BIGINT NOT NULL DEFAULT 0,
    -- It is not begun any more after this.
    expires BIGINT,
    bytes BIGINT NOT NULL,
    transfer BIGINT
);
CREATE INDEX files_ready ON files (queue, id) WHERE state = 0;
CREATE INDEX files_expiring ON files (expires) WHERE state = 0 AND expires IS NOT NULL;
CREATE INDEX files_running ON files (transfer) WHERE state = 1;

CREATE TABLE file_facts (
    id BIGINT PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    checksum TEXT,
    metadata TEXT,
    reason TEXT,
    fault TEXT,
    started BIGINT,
    ended BIGINT,
    moved BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE attempts (
    file BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    ended BIGINT NOT NULL,
    fault TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (file, attempt)
);

CREATE TABLE transfers (
    number BIGINT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    queue BIGINT NOT NULL,
    carrier TEXT NOT NULL,
    files BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    created BIGINT NOT NULL,
    ended BIGINT,
    -- The hub that has it carried, and its rate when that hub told last, bytes per second.
    hub TEXT NOT NULL,
    rate BIGINT NOT NULL DEFAULT 0,
    -- The numbers of its files in the sequence of its order, JSON: a node tells of files by their places there.
    file_ids TEXT NOT NULL
);
CREATE INDEX transfers_running ON transfers (number) WHERE ended IS NULL;

CREATE TABLE events (
    number BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    job TEXT NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
);

-- The hubs that share the database, and when each said last that it lives, by the database's clock.
CREATE TABLE hubs (id TEXT PRIMARY KEY, beat BIGINT NOT NULL);
