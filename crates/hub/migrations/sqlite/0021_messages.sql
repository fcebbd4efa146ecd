-- Changes of files that a broker is yet to be told of. They are written by triggers, so that no change can be made without: where nobody is told,
-- the setting is 0, and they write nothing. Times are milliseconds since 1970.

CREATE TABLE message_settings (is_on INTEGER NOT NULL);
INSERT INTO message_settings (is_on) VALUES (0);

CREATE TABLE messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    file INTEGER NOT NULL,
    -- NULL for a file that is new.
    state_before INTEGER,
    state INTEGER NOT NULL,
    attempt_before INTEGER,
    attempt INTEGER NOT NULL
);

CREATE TRIGGER files_told_new AFTER INSERT ON files WHEN (SELECT is_on FROM message_settings) = 1
BEGIN
    INSERT INTO messages (at, file, state, attempt)
    VALUES (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), NEW.id, NEW.state, NEW.attempt);
END;

CREATE TRIGGER files_told AFTER UPDATE OF state ON files
WHEN OLD.state <> NEW.state AND (SELECT is_on FROM message_settings) = 1
BEGIN
    INSERT INTO messages (at, file, state_before, state, attempt_before, attempt)
    VALUES (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER), NEW.id, OLD.state, NEW.state, OLD.attempt, NEW.attempt);
END;
