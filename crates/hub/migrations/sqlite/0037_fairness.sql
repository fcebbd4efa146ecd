-- No rule and no name of a subscription stands in the way of others.

-- A rule of which nothing could be copied is not looked at until then.
ALTER TABLE rules ADD COLUMN idle_until INTEGER NOT NULL DEFAULT 0;
CREATE INDEX evaluations_of_name ON evaluations (name);

-- Rules of the subscription that the name has already: these are not made again.
ALTER TABLE news ADD COLUMN rules_made INTEGER NOT NULL DEFAULT 0;
CREATE INDEX news_of_subscription ON news (subscription, name);
