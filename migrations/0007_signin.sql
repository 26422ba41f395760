-- Who may sign in, and who is signed in. None of it is in the log: these rows are
-- of this moment, and go when their operator is erased. What opens something, such
-- as the secret of a session, is kept as a hash only.
CREATE SCHEMA signin;

-- What pages call an operator, as told by the identity that made it.
CREATE TABLE signin.operators (
  id       text COLLATE "C" PRIMARY KEY,
  issuer   text COLLATE "C" NOT NULL,
  subject  text COLLATE "C" NOT NULL,
  name     text             NOT NULL,
  email    text             NOT NULL
);

-- An identity is (issuer, subject) of an OpenID provider, or (eip155, address).
CREATE TABLE signin.identities (
  issuer      text COLLATE "C" NOT NULL,
  subject     text COLLATE "C" NOT NULL,
  operator_id text COLLATE "C" NOT NULL REFERENCES signin.operators ON DELETE CASCADE,
  label       text             NOT NULL,
  linked_at   timestamptz      NOT NULL,
  PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_operator ON signin.identities (operator_id);

CREATE TABLE signin.sessions (
  secret_hash bytea            PRIMARY KEY,
  id          text COLLATE "C" NOT NULL UNIQUE,
  operator_id text COLLATE "C" NOT NULL REFERENCES signin.operators ON DELETE CASCADE,
  began_at    timestamptz      NOT NULL,
  seen_at     timestamptz      NOT NULL
);
CREATE INDEX sessions_operator ON signin.sessions (operator_id);
CREATE INDEX sessions_seen ON signin.sessions (seen_at);

-- A sign-in at a provider that has begun. Its nonce and its verifier are made from
-- the state and the browser's cookie, neither of which is here.
CREATE TABLE signin.attempts (
  state_hash   bytea            PRIMARY KEY,
  browser_hash bytea            NOT NULL,
  provider     text COLLATE "C" NOT NULL,
  return_to    text             NOT NULL,
  link_session text COLLATE "C" NOT NULL,
  expires_at   timestamptz      NOT NULL
);
CREATE INDEX attempts_expiry ON signin.attempts (expires_at);

-- A text that a wallet is to sign.
CREATE TABLE signin.challenges (
  nonce        text COLLATE "C" PRIMARY KEY,
  browser_hash bytea            NOT NULL,
  address      text COLLATE "C" NOT NULL,
  message      text             NOT NULL,
  return_to    text             NOT NULL,
  link_session text COLLATE "C" NOT NULL,
  expires_at   timestamptz      NOT NULL
);
CREATE INDEX challenges_expiry ON signin.challenges (expires_at);

-- Codes of the provider that development brings along.
CREATE TABLE signin.development_codes (
  code_hash  bytea       PRIMARY KEY,
  request    jsonb       NOT NULL,
  expires_at timestamptz NOT NULL
);

GRANT USAGE ON SCHEMA signin TO sidequest_app;
GRANT SELECT, INSERT, DELETE, UPDATE (name, email) ON signin.operators TO sidequest_app;
GRANT SELECT, INSERT, DELETE ON signin.identities TO sidequest_app;
GRANT SELECT, INSERT, DELETE, UPDATE (seen_at) ON signin.sessions TO sidequest_app;
GRANT SELECT, INSERT, DELETE ON signin.attempts TO sidequest_app;
GRANT SELECT, INSERT, DELETE ON signin.challenges TO sidequest_app;
GRANT SELECT, INSERT, DELETE ON signin.development_codes TO sidequest_app;
