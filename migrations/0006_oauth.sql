-- The authorization server's own records: which clients there are, what is being
-- asked at the moment, and how far each line of refresh tokens got. What an
-- operator allowed is in the log, as a grant; nothing here allows anything
-- without one. Secrets, codes and cookies stand here as hashes.
CREATE SCHEMA oauth;

-- Clients that registered themselves (RFC 7591) or that the deployment knows. One
-- that no token was ever issued to has no used_at and is removed after a day.
CREATE TABLE oauth.clients (
  client_id     text COLLATE "C" PRIMARY KEY,
  kind          text   NOT NULL CHECK (kind IN ('registered', 'known')),
  name          text   NOT NULL, -- foreign text
  redirect_uris text[] NOT NULL,
  auth_method   text   NOT NULL CHECK (auth_method IN ('none', 'client_secret_basic', 'client_secret_post')),
  secret_hash   bytea, -- SHA-256
  created_at    timestamptz NOT NULL DEFAULT now(),
  used_at       timestamptz,
  CHECK ((secret_hash IS NULL) = (auth_method = 'none'))
);
CREATE INDEX clients_age ON oauth.clients (coalesce(used_at, created_at)) WHERE kind = 'registered';

-- Copies of documents that clients publish about themselves: their metadata and
-- their keys. A copy outlives its freshness, for the outages of its origin.
CREATE TABLE oauth.documents (
  url         text COLLATE "C" PRIMARY KEY,
  body        bytea NOT NULL CHECK (octet_length(body) <= 5120),
  fetched_at  timestamptz NOT NULL DEFAULT now(),
  fresh_until timestamptz NOT NULL,
  used_at     timestamptz
);
CREATE INDEX documents_age ON oauth.documents (coalesce(used_at, fetched_at));

-- Authorization requests that wait for an operator. The client is written down as
-- it was when it asked.
CREATE TABLE oauth.requests (
  request_id     text COLLATE "C" PRIMARY KEY,
  browser        bytea  NOT NULL, -- SHA-256 of the cookie of the browser that asked
  session        bytea,           -- SHA-256 of the id of the session that was shown it last
  client_id      text   NOT NULL,
  client_name    text   NOT NULL,
  client_host    text   NOT NULL,
  client_kind    text   NOT NULL,
  redirect_uri   text   NOT NULL, -- as asked for
  registered_uri text   NOT NULL, -- the one of the client that it matches
  resource       text   NOT NULL,
  asked          text[] NOT NULL,
  state          text,
  challenge      text   NOT NULL,
  decision       bytea,           -- SHA-256 of what was decided
  ended_at       timestamptz,     -- when its answer was given out
  expires_at     timestamptz NOT NULL
);
CREATE INDEX requests_expiry ON oauth.requests (expires_at);

-- Authorization codes. A code stays for a day after its minute, so that a second
-- use of it is recognised.
CREATE TABLE oauth.codes (
  code_hash    bytea PRIMARY KEY, -- SHA-256
  grant_id     text COLLATE "C" NOT NULL,
  client_id    text COLLATE "C" NOT NULL,
  redirect_uri text NOT NULL,
  challenge    text NOT NULL,
  expires_at   timestamptz NOT NULL,
  used_at      timestamptz,                   -- of the first attempt, good or not
  redeemed     boolean NOT NULL DEFAULT false -- it was good
);
CREATE INDEX codes_expiry ON oauth.codes (expires_at);

-- Lines of refresh tokens, one for each code that was redeemed. A token is
-- derived from its line and a number, so no token stands here.
CREATE TABLE oauth.lines (
  line_id    bytea PRIMARY KEY,
  grant_id   text COLLATE "C" NOT NULL,
  salt       bytea  NOT NULL,
  seq        bigint NOT NULL,      -- of the newest token
  rotated_at timestamptz NOT NULL, -- when that one was made
  idle_until timestamptz NOT NULL, -- it is good until then,
  ends_at    timestamptz NOT NULL  -- and the line until then at most
) WITH (fillfactor = 70);
CREATE INDEX lines_grant ON oauth.lines (grant_id);
CREATE INDEX lines_idle ON oauth.lines (idle_until);

-- Client assertions (RFC 7523) that were accepted, until they expire by themselves.
CREATE TABLE oauth.assertions (
  client_id  text COLLATE "C" NOT NULL,
  jti        text COLLATE "C" NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (client_id, jti)
);
CREATE INDEX assertions_expiry ON oauth.assertions (expires_at);

GRANT USAGE ON SCHEMA oauth TO sidequest_app;
GRANT SELECT, INSERT, DELETE, UPDATE (used_at) ON oauth.clients TO sidequest_app;
GRANT SELECT, INSERT, DELETE, UPDATE (body, fetched_at, fresh_until, used_at) ON oauth.documents TO sidequest_app;
GRANT SELECT, INSERT, DELETE, UPDATE (session, decision, ended_at) ON oauth.requests TO sidequest_app;
GRANT SELECT, INSERT, DELETE, UPDATE (used_at, redeemed) ON oauth.codes TO sidequest_app;
GRANT SELECT, INSERT, DELETE, UPDATE (seq, rotated_at, idle_until) ON oauth.lines TO sidequest_app;
GRANT SELECT, INSERT, DELETE ON oauth.assertions TO sidequest_app;
