-- Who is told when a job has ended: an address that the order is posted to; empty where nobody is, or was told.
ALTER TABLE jobs ADD COLUMN notify TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN notify_tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN notify_after INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_to_tell ON jobs (notify_after) WHERE notify <> '' AND ended IS NOT NULL;
