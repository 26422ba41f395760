-- What the authorization request behind a code, and behind the line of refresh
-- tokens it begins, asked for: the most that the tokens of this line ever allow,
-- whatever else their grant does. NULL where a program of before made it; then the
-- grant alone counts.
ALTER TABLE oauth.codes ADD COLUMN asked text[];
ALTER TABLE oauth.lines ADD COLUMN asked text[];
