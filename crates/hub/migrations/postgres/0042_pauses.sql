-- The priority that a paused job has again when it goes on; 0 where nobody has paused it.
ALTER TABLE jobs ADD COLUMN paused BIGINT NOT NULL DEFAULT 0;
-- What held the last transfer of a job back, as its node told when it ended (JSON); empty where none told.
ALTER TABLE jobs ADD COLUMN limited_by TEXT NOT NULL DEFAULT '';
