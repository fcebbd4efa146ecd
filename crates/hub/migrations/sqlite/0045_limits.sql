-- What a job may use at most, bit/s; 0 where nothing limits it. Its files wait in queues of their own: `limited` is the number of the job.
ALTER TABLE jobs ADD COLUMN limit_bit_s INTEGER NOT NULL DEFAULT 0;
CREATE TABLE queues_of_limits (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    community TEXT NOT NULL,
    activity TEXT NOT NULL,
    owner TEXT NOT NULL,
    priority INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    queued INTEGER NOT NULL DEFAULT 0,
    queued_bytes INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    running_bytes INTEGER NOT NULL DEFAULT 0,
    limited INTEGER NOT NULL DEFAULT 0,
    UNIQUE (source, target, community, activity, owner, priority, deadline, limited)
);
INSERT INTO queues_of_limits (id, source, target, community, activity, owner, priority, deadline, queued, queued_bytes, running, running_bytes)
    SELECT id, source, target, community, activity, owner, priority, deadline, queued, queued_bytes, running, running_bytes FROM queues;
DROP TABLE queues;
ALTER TABLE queues_of_limits RENAME TO queues;
