-- Copies that go, and copies that may not be what they should be.

-- Of a copy that is being deleted: the state that it is in again where it cannot be.
ALTER TABLE replicas ADD COLUMN was INTEGER NOT NULL DEFAULT 0;
UPDATE replicas SET accessed = created WHERE accessed IS NULL;
CREATE INDEX replicas_removable ON replicas (store, accessed, file) WHERE locks = 0 AND unlocked IS NOT NULL;
CREATE INDEX replicas_deleting ON replicas (not_before) WHERE state = 4;
-- Of copies that all wait until later, one entry is looked at.
CREATE INDEX replicas_wanted ON replicas (not_before) WHERE state = 1;

-- Copies that somebody could not read as they should be, until it is proven what they are.
CREATE TABLE suspicions (
    file INTEGER NOT NULL,
    store INTEGER NOT NULL,
    at INTEGER NOT NULL,
    why TEXT NOT NULL,
    not_before INTEGER NOT NULL,
    PRIMARY KEY (file, store)
);

-- Bytes at an endpoint that no rule holds: they give way to what rules ask for.
ALTER TABLE stores ADD COLUMN spare INTEGER NOT NULL DEFAULT 0;
UPDATE stores SET spare = (SELECT COALESCE(SUM(bytes), 0) FROM replicas r WHERE r.store = stores.id AND r.state = 0 AND r.locks = 0);
