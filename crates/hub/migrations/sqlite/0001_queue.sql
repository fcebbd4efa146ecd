-- The queue of a hub. Times are milliseconds since 1970; sizes are bytes. What it means: docs/design/hub.md.

CREATE TABLE counters (name TEXT PRIMARY KEY, next INTEGER NOT NULL);

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
    created INTEGER NOT NULL,
    expires INTEGER,
    secret_sha256 TEXT NOT NULL
);

CREATE TABLE queues (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    community TEXT NOT NULL,
    activity TEXT NOT NULL,
    owner TEXT NOT NULL,
    priority INTEGER NOT NULL,
    -- By when its files are promised to be there; 0 where nothing is promised.
    deadline INTEGER NOT NULL,
    queued INTEGER NOT NULL DEFAULT 0,
    queued_bytes INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    running_bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (source, target, community, activity, owner, priority, deadline)
);

-- A file with several sources has a row for each, and so has each hop of a multi-hop job: `file_rows` counts those, from `first_file` on;
-- `files` and what follows count files.
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    community TEXT NOT NULL,
    activity TEXT NOT NULL,
    priority INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    first_file INTEGER NOT NULL,
    file_rows INTEGER NOT NULL,
    files INTEGER NOT NULL,
    queued INTEGER NOT NULL,
    running INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL,
    moved INTEGER NOT NULL DEFAULT 0,
    submitted INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    deadline INTEGER,
    -- 1 once somebody has ended it: what runs is not tried again.
    ending INTEGER NOT NULL DEFAULT 0,
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
    id INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    at INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0,
    -- It is not begun any more after this.
    expires INTEGER,
    bytes INTEGER NOT NULL,
    transfer INTEGER
);
CREATE INDEX files_ready ON files (queue, id) WHERE state = 0;
CREATE INDEX files_expiring ON files (expires) WHERE state = 0 AND expires IS NOT NULL;
CREATE INDEX files_running ON files (transfer) WHERE state = 1;

CREATE TABLE file_facts (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    checksum TEXT,
    metadata TEXT,
    reason TEXT,
    fault TEXT,
    started INTEGER,
    ended INTEGER,
    moved INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE attempts (
    file INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    fault TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (file, attempt)
);

CREATE TABLE transfers (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    queue INTEGER NOT NULL,
    carrier TEXT NOT NULL,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    created INTEGER NOT NULL,
    ended INTEGER,
    -- The hub that has it carried, and its rate when that hub told last, bytes per second.
    hub TEXT NOT NULL,
    rate INTEGER NOT NULL DEFAULT 0,
    -- The numbers of its files in the sequence of its order, JSON: a node tells of files by their places there.
    file_ids TEXT NOT NULL
);
CREATE INDEX transfers_running ON transfers (number) WHERE ended IS NULL;

CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    job TEXT NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
);

-- The hubs that share the database, and when each said last that it lives, by the database's clock.
CREATE TABLE hubs (id TEXT PRIMARY KEY, beat INTEGER NOT NULL);
