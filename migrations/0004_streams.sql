-- Event streams that are open now, in all processes: what the limit of a grant is
-- counted on. Nothing here is a fact; a table that is lost fills up again by
-- itself. All times are the database's clock.
CREATE SCHEMA live;

CREATE TABLE live.streams (
  stream_id text COLLATE "C" PRIMARY KEY,
  grant_id  text COLLATE "C" NOT NULL,
  opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at   timestamptz NOT NULL DEFAULT clock_timestamp(), -- its process renews it
  ended     boolean     NOT NULL DEFAULT false              -- its process is to end it
) WITH (fillfactor = 60);

CREATE INDEX streams_grant ON live.streams (grant_id);

-- How often a grant opens streams. Until full_at it has opened some of late; a
-- grant without a row has not. The row is also the lock of the grant's openings.
CREATE TABLE live.openings (
  grant_id text COLLATE "C" PRIMARY KEY,
  full_at  timestamptz NOT NULL
) WITH (fillfactor = 60);

GRANT USAGE ON SCHEMA live TO sidequest_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON live.streams, live.openings TO sidequest_app;
