-- No rule and no name of a subscription stands in the way of others.

-- A rule of which nothing could be copied is not looked at until then.
ALTER TABLE rules ADD COLUMN idle_until BIGINT NOT NULL DEFAULT 0;
CREATE INDEX evaluations_of_name ON evaluations (name);

-- Rules of the subscription that the name has already: these are not made again.
ALTER TABLE news ADD COLUMN rules_made BIGINT NOT NULL DEFAULT 0;
CREATE INDEX news_of_subscription ON news (subscription, name);

-- The dataset with which a file is to end, where it was not ended for itself: it stays if something else contains it meanwhile.
ALTER TABLE names ADD COLUMN ends_with BIGINT;
CREATE INDEX names_ending_with ON names (ends_with) WHERE ends_with IS NOT NULL;
CREATE INDEX history_removed ON history (name) WHERE kind = 'removed';
CREATE INDEX replicas_bad ON replicas (file) WHERE state = 3;
