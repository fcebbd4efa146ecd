-- The catalogue. Times are milliseconds since 1970; sizes are bytes. What it means: docs/design/catalogue.md.

CREATE TABLE scopes (
    name TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    created INTEGER NOT NULL
);

-- Files, datasets and containers.
CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    kind INTEGER NOT NULL,
    account TEXT NOT NULL,
    created INTEGER NOT NULL,
    -- Of a file, its size; of a dataset, the sum of its files; of a container, 0: what it has is below it.
    bytes INTEGER NOT NULL DEFAULT 0,
    -- What it contains itself: files of a dataset, datasets and containers of a container.
    entries INTEGER NOT NULL DEFAULT 0,
    adler32 TEXT,
    md5 TEXT,
    open INTEGER NOT NULL DEFAULT 1,
    monotonic INTEGER NOT NULL DEFAULT 0,
    expires INTEGER,
    -- When what it contains, or what is said of it, changed last.
    changed INTEGER NOT NULL,
    UNIQUE (scope, name)
);
CREATE INDEX names_expiring ON names (expires) WHERE expires IS NOT NULL;

CREATE TABLE contents (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;
CREATE INDEX contents_child ON contents (child);

-- Values are JSON.
CREATE TABLE metadata (
    id INTEGER NOT NULL,
    word TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (id, word)
) WITHOUT ROWID;
CREATE INDEX metadata_value ON metadata (word, value);

-- Endpoints that have stored something, by number; and how much is there, is on its way there, or is promised to a rule.
CREATE TABLE stores (
    id INTEGER PRIMARY KEY,
    endpoint TEXT NOT NULL UNIQUE,
    files INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE replicas (
    file INTEGER NOT NULL,
    store INTEGER NOT NULL,
    state INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    -- Rules that hold it; one that none holds may be deleted, from `unlocked` on.
    locks INTEGER NOT NULL DEFAULT 0,
    unlocked INTEGER,
    -- Below the directory of the endpoint, where that is not as the endpoint names files.
    path TEXT,
    created INTEGER NOT NULL,
    accessed INTEGER,
    -- Of one that is wanted: how often a copy has failed, why, and when it is tried again.
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    PRIMARY KEY (file, store)
) WITHOUT ROWID;
CREATE INDEX replicas_of_store ON replicas (store, file);
CREATE INDEX replicas_unlocked ON replicas (store, unlocked) WHERE locks = 0 AND unlocked IS NOT NULL;

CREATE TABLE rules (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name INTEGER NOT NULL,
    account TEXT NOT NULL,
    community TEXT NOT NULL,
    activity TEXT NOT NULL,
    priority INTEGER NOT NULL,
    copies INTEGER NOT NULL,
    expression TEXT NOT NULL,
    source_expression TEXT,
    grouping INTEGER NOT NULL,
    weight TEXT,
    comment TEXT,
    created INTEGER NOT NULL,
    expires INTEGER,
    deadline INTEGER,
    suspended INTEGER NOT NULL DEFAULT 0,
    -- Locks by their states, and bytes of those that are not ok.
    ok INTEGER NOT NULL DEFAULT 0,
    replicating INTEGER NOT NULL DEFAULT 0,
    stuck INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    bytes_left INTEGER NOT NULL DEFAULT 0,
    -- Why files of it are nowhere: no endpoint can take them.
    error TEXT,
    -- When it became ok last.
    fulfilled INTEGER
);
CREATE INDEX rules_of_name ON rules (name);
CREATE INDEX rules_expiring ON rules (expires) WHERE expires IS NOT NULL;
CREATE INDEX rules_unfulfilled ON rules (priority, number) WHERE replicating > 0 OR stuck > 0;

-- What has still to be looked at: the files of a name for a rule, from a file of a dataset on.
CREATE TABLE evaluations (
    number INTEGER PRIMARY KEY,
    rule INTEGER NOT NULL,
    name INTEGER NOT NULL,
    -- 1: the name is no longer in what the rule is of.
    released INTEGER NOT NULL,
    dataset INTEGER NOT NULL DEFAULT 0,
    file INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX evaluations_of_rule ON evaluations (rule);

-- Where the groups of a rule go: a dataset, or 0 for all that the rule is of.
CREATE TABLE placements (
    rule INTEGER NOT NULL,
    dataset INTEGER NOT NULL,
    store INTEGER NOT NULL,
    PRIMARY KEY (rule, dataset, store)
) WITHOUT ROWID;

-- A rule's hold on a replica.
CREATE TABLE locks (
    rule INTEGER NOT NULL,
    file INTEGER NOT NULL,
    store INTEGER NOT NULL,
    state INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (rule, file, store)
) WITHOUT ROWID;
CREATE INDEX locks_of_replica ON locks (file, store);
CREATE INDEX locks_unfulfilled ON locks (rule, store, file) WHERE state <> 1;

-- Bytes that the rules of an account hold at an endpoint, and what they may.
CREATE TABLE held (
    account TEXT NOT NULL,
    store INTEGER NOT NULL,
    files INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (account, store)
) WITHOUT ROWID;
CREATE TABLE quotas (
    account TEXT NOT NULL,
    expression TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (account, expression)
) WITHOUT ROWID;

-- Jobs of the queue by which replicas are made, and which replicas.
CREATE TABLE copy_jobs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    rule INTEGER NOT NULL,
    store INTEGER NOT NULL,
    created INTEGER NOT NULL,
    -- Files of it that have ended, as far as the replicas say so.
    settled INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE copies (
    job INTEGER NOT NULL,
    at INTEGER NOT NULL,
    file INTEGER NOT NULL,
    store INTEGER NOT NULL,
    PRIMARY KEY (job, at)
) WITHOUT ROWID;
CREATE UNIQUE INDEX copies_of_replica ON copies (file, store);

-- What happened to a name, in order: appended only.
CREATE TABLE history (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    name INTEGER NOT NULL,
    account TEXT NOT NULL,
    kind TEXT NOT NULL,
    facts TEXT NOT NULL
);
CREATE INDEX history_of_name ON history (name, number);
