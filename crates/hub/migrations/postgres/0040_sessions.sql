-- Sessions of browsers with the portal. Of an id there is a digest: whoever reads this table is in nobody's session.
CREATE TABLE sessions (
    id_sha256 TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    role TEXT NOT NULL,
    community TEXT NOT NULL,
    -- The grant that was shown for it; empty where it was another credential. A session ends with its grant.
    grant_id TEXT NOT NULL,
    created BIGINT NOT NULL,
    used BIGINT NOT NULL,
    expires BIGINT NOT NULL
);
CREATE INDEX sessions_of_owner ON sessions (owner, used);
