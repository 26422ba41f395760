-- Secrets at rest. Every value is sealed under the key-encryption key, which the
-- database never sees, and is bound to its name: a row copied over another one
-- does not open. Only the seal of a secret may change, never its name.
CREATE SCHEMA auth;

CREATE TABLE auth.secrets (
  name       text COLLATE "C" PRIMARY KEY,
  sealed     bytea       NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

GRANT USAGE ON SCHEMA auth TO sidequest_app;
GRANT SELECT, INSERT, UPDATE (sealed) ON auth.secrets TO sidequest_app;
