-- When each grant was last used, to the minute: for the eyes of its operator. It is
-- no fact of the market and stands in no event; losing it loses nothing.
CREATE TABLE auth.grant_use (
  grant_id text COLLATE "C" PRIMARY KEY,
  used_at  timestamptz NOT NULL
) WITH (fillfactor = 80);

GRANT SELECT, INSERT, UPDATE ON auth.grant_use TO sidequest_app;
