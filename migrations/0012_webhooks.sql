-- Webhooks: who hears of a feed by POST, how far each has got, and how it fares.
-- How far is a place in the feed beside the lane's lease, and there is no row for
-- a delivery still to be made: what there is to send follows from the place. So
-- nothing can be lost that is not lost from the log.
CREATE SCHEMA hooks;

CREATE TABLE hooks.subscriptions (
  sub_id        text COLLATE "C" PRIMARY KEY,
  principal     text COLLATE "C" NOT NULL, -- agent and client
  grant_id      text COLLATE "C" NOT NULL, -- the connection that subscribed last
  agent_key     text COLLATE "C" NOT NULL,
  operator      text COLLATE "C" NOT NULL,
  board         text COLLATE "C" NOT NULL,
  feed          text COLLATE "C" NOT NULL,
  audience      text COLLATE "C" NOT NULL,
  arguments     text   NOT NULL, -- canonical JSON
  kinds         text[] NOT NULL,
  request_id    text   NOT NULL,
  task_id       text   NOT NULL,
  url           text COLLATE "C" NOT NULL, -- foreign text
  host          text COLLATE "C" NOT NULL, -- of it, with the port
  secret        bytea NOT NULL,            -- sealed, as the one before it
  former_secret bytea,                     -- still signs, until
  former_until  timestamptz,
  controls      boolean NOT NULL,          -- the receiver takes gap and terminated
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at    timestamptz,               -- null for never
  paused        boolean NOT NULL DEFAULT false,

  epoch         int     NOT NULL, -- the place: up to here all is delivered or given up
  pos           bigint  NOT NULL,
  ord           int     NOT NULL,
  moved_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  truncated     boolean NOT NULL DEFAULT false, -- rows were skipped that could not be shown

  state         text    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended', 'disabled')),
  tries         int     NOT NULL DEFAULT 0, -- that failed, at the row at hand
  refusals      int     NOT NULL DEFAULT 0, -- of them, those that were the row's own fault
  skipped       int     NOT NULL DEFAULT 0, -- rows given up since the last success
  failing_since timestamptz,
  next_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  slow          boolean NOT NULL DEFAULT false,
  last_error    text,
  delivered_at  timestamptz,
  told          text    NOT NULL DEFAULT '', -- the state that the owner was told of

  owner         text COLLATE "C",
  lease_until   timestamptz,
  fence         bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 60);
CREATE INDEX subscriptions_grant ON hooks.subscriptions (grant_id);
CREATE INDEX subscriptions_agent ON hooks.subscriptions (agent_key);
CREATE INDEX subscriptions_operator ON hooks.subscriptions (operator);
CREATE INDEX subscriptions_feed ON hooks.subscriptions (board, feed, audience);

-- Receivers that showed that they want what is sent to them.
CREATE TABLE hooks.endpoints (
  principal   text COLLATE "C" NOT NULL,
  url         text COLLATE "C" NOT NULL,
  controls    boolean NOT NULL,
  verified_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (principal, url)
);

-- What was tried, for the eyes of owners and operators. Losing it loses nothing.
CREATE TABLE hooks.attempts (
  sub_id   text COLLATE "C" NOT NULL,
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  event_id text COLLATE "C" NOT NULL,
  pos      bigint NOT NULL,
  ord      int    NOT NULL,
  outcome  text   NOT NULL, -- delivered, or what went wrong
  status   int    NOT NULL, -- of HTTP, 0 for none
  took_ms  int    NOT NULL
);
CREATE INDEX attempts_newest ON hooks.attempts (sub_id, at);
CREATE INDEX attempts_event ON hooks.attempts (sub_id, event_id);
CREATE INDEX attempts_age ON hooks.attempts USING brin (at);

-- Rows that were given up.
CREATE TABLE hooks.dead_letters (
  sub_id   text COLLATE "C" NOT NULL REFERENCES hooks.subscriptions ON DELETE CASCADE,
  epoch    int    NOT NULL,
  pos      bigint NOT NULL,
  ord      int    NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  reason   text   NOT NULL,
  status   int    NOT NULL,
  at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (sub_id, pos, ord)
);

-- Rows that somebody wants sent once more.
CREATE TABLE hooks.redeliveries (
  sub_id   text COLLATE "C" NOT NULL REFERENCES hooks.subscriptions ON DELETE CASCADE,
  pos      bigint NOT NULL,
  ord      int    NOT NULL,
  asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (sub_id, pos, ord)
);

GRANT USAGE ON SCHEMA hooks TO sidequest_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON
  hooks.subscriptions, hooks.endpoints, hooks.attempts, hooks.dead_letters, hooks.redeliveries TO sidequest_app;
