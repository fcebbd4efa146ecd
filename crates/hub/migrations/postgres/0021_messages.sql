-- Changes of files that a broker is yet to be told of. They are written by triggers, so that no change can be made without: where nobody is told,
-- the setting is 0, and they write nothing. Times are milliseconds since 1970.

CREATE TABLE message_settings (is_on BIGINT NOT NULL);
INSERT INTO message_settings (is_on) VALUES (0);

CREATE TABLE messages (
    number BIGSERIAL PRIMARY KEY,
    at BIGINT NOT NULL,
    file BIGINT NOT NULL,
    -- NULL for a file that is new.
    state_before BIGINT,
    state BIGINT NOT NULL,
    attempt_before BIGINT,
    attempt BIGINT NOT NULL
);

CREATE FUNCTION tell_of_file() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT is_on FROM message_settings) <> 1 THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO messages (at, file, state, attempt)
        VALUES (CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT), NEW.id, NEW.state, NEW.attempt);
    ELSIF OLD.state <> NEW.state THEN
        INSERT INTO messages (at, file, state_before, state, attempt_before, attempt)
        VALUES (CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT), NEW.id, OLD.state, NEW.state, OLD.attempt, NEW.attempt);
    END IF;
    RETURN NULL;
END;
$$;

CREATE TRIGGER files_told AFTER INSERT OR UPDATE OF state ON files FOR EACH ROW EXECUTE FUNCTION tell_of_file();
