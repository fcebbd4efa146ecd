-- What FTS's words need beside the queue.

-- Tokens of one file's storages, until it has ended. They are told to those storages and to nobody else.
CREATE TABLE file_tokens (
    file INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL
);

-- Users who may do nothing at this hub, by the names that FTS gives them.
CREATE TABLE banned_users (
    dn TEXT PRIMARY KEY,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    banned_by TEXT NOT NULL
);

-- What was configured in FTS's words, and by whom.
CREATE TABLE config_audit (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    dn TEXT NOT NULL,
    action TEXT NOT NULL,
    config TEXT NOT NULL
);

-- 1 once somebody has ended a file that moves: it is not tried again.
ALTER TABLE files ADD COLUMN ending INTEGER NOT NULL DEFAULT 0;
CREATE INDEX files_ending ON files (id) WHERE ending = 1 AND state = 1;
