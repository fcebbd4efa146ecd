-- What a job may use at most, bit/s; 0 where nothing limits it. Its files wait in queues of their own: `limited` is the number of the job.
ALTER TABLE jobs ADD COLUMN limit_bit_s BIGINT NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN limited BIGINT NOT NULL DEFAULT 0;
ALTER TABLE queues DROP CONSTRAINT queues_source_target_community_activity_owner_priority_dead_key;
ALTER TABLE queues ADD CONSTRAINT queues_key UNIQUE (source, target, community, activity, owner, priority, deadline, limited);
