-- What people do by the portal and the API: who changed what, which links they share, what they have put aside to delete.

-- The audit trail: requests that change something, with who sent them and what was answered.
CREATE TABLE actions (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    owner TEXT NOT NULL,
    address TEXT NOT NULL,
    what TEXT NOT NULL,
    path TEXT NOT NULL,
    status INTEGER NOT NULL
);
CREATE INDEX actions_of_owner ON actions (owner, number);

-- Links for people without an account. Of a link's token there is a digest: whoever reads this table opens nothing.
CREATE TABLE share_links (
    id TEXT PRIMARY KEY,
    token_sha256 TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    -- The URL of the file, or of the folder with a slash at its end.
    target TEXT NOT NULL,
    -- `read` or `drop`.
    kind TEXT NOT NULL,
    -- PBKDF2-HMAC-SHA256 of the password, and its salt, hexadecimal; empty where there is none.
    password_hash TEXT NOT NULL,
    password_salt TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    opened INTEGER NOT NULL DEFAULT 0,
    -- Wrong passwords in a row, and until when none is looked at.
    failures INTEGER NOT NULL DEFAULT 0,
    locked_until INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX share_links_of_owner ON share_links (owner, created);

-- Files and folders that somebody has deleted: they lie beside where they were until they expire, and can be taken back.
CREATE TABLE deletions (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    target TEXT NOT NULL,
    kept_at TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    expires INTEGER NOT NULL
);
CREATE INDEX deletions_of_owner ON deletions (owner, deleted);
CREATE INDEX deletions_by_end ON deletions (expires);
