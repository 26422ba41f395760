-- The log: the only truth of the program. Its own role may append to it and read
-- it; nothing may change or remove an event.

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'sidequest_app') THEN
    CREATE ROLE sidequest_app NOLOGIN;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL; -- another database of the cluster was migrated at the same moment
END $$;

CREATE SCHEMA log;

-- One row per shard; there is one shard. Its lock orders all appends, so that
-- position order is commit order and a reader needs no more than pos > $1.
CREATE TABLE log.head (
  shard smallint PRIMARY KEY,
  epoch int      NOT NULL,
  pos   bigint   NOT NULL
) WITH (fillfactor = 10);

INSERT INTO log.head (shard, epoch, pos) VALUES (0, 1, 0);

CREATE TABLE log.streams (
  stream_id text COLLATE "C" PRIMARY KEY,
  version   int     NOT NULL,
  first_pos bigint  NOT NULL,
  archived  boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80);

CREATE TABLE log.events (
  pos         bigint   NOT NULL,
  id          text     COLLATE "C" NOT NULL,
  stream_id   text     COLLATE "C" NOT NULL,
  version     int      NOT NULL,
  type        text     NOT NULL,
  schema_v    smallint NOT NULL,
  actor       text     NOT NULL,
  board       text     NOT NULL, -- '' for a fact that belongs to no board
  causation   text     NOT NULL, -- the operation that caused it
  correlation text     NOT NULL, -- the operation that began the chain
  at          timestamptz NOT NULL,
  data        bytea    NOT NULL, -- canonical JSON, RFC 8785
  prev_hash   bytea    NOT NULL, -- of the predecessor in the stream; empty for the first
  hash        bytea    NOT NULL, -- SHA-256 of what a reader of the export sees
  recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (pos)
) PARTITION BY RANGE (pos);

-- Partitions are made ahead, ten million positions each. A unique index over
-- (stream_id, version) cannot span partitions: log.streams, read under the lock
-- of log.head, is what guards versions. An event's id follows from its operation
-- and needs no index: the key of log.operations keeps both unique.
CREATE FUNCTION log.make_partitions() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  size  constant bigint := 10000000;
  first bigint;
  name  text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('log.make_partitions'));
  FOR first IN
    SELECT n * size
    FROM log.head, generate_series(head.pos / size, head.pos / size + 1) AS n
    WHERE head.shard = 0
  LOOP
    name := format('events_%s', first / size);
    CONTINUE WHEN to_regclass('log.' || name) IS NOT NULL;
    EXECUTE format('CREATE TABLE log.%I PARTITION OF log.events FOR VALUES FROM (%s) TO (%s)', name, first, first + size);
    EXECUTE format('CREATE UNIQUE INDEX %I ON log.%I (stream_id, version)', name || '_stream', name);
  END LOOP;
END $$;

SELECT log.make_partitions();

CREATE FUNCTION log.refuse_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is for ever: % of log.% is refused', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER events_change BEFORE UPDATE OR DELETE ON log.events
  FOR EACH ROW EXECUTE FUNCTION log.refuse_change();
CREATE TRIGGER events_truncate BEFORE TRUNCATE ON log.events
  FOR EACH STATEMENT EXECUTE FUNCTION log.refuse_change();

-- Receipts: how each operation ended, for ever. The key belongs to its owner.
CREATE TABLE log.operations (
  owner        text  COLLATE "C" NOT NULL,
  op_key       text  COLLATE "C" NOT NULL,
  operation_id text  COLLATE "C" NOT NULL,
  tool         text  NOT NULL,
  args_hash    bytea NOT NULL,
  status       text  NOT NULL, -- confirmed | refused
  result       bytea NOT NULL, -- the answer, or the refusal, as canonical JSON
  last_pos     bigint NOT NULL, -- 0 when it recorded no events
  at           timestamptz NOT NULL,
  PRIMARY KEY (owner, op_key)
);
CREATE UNIQUE INDEX operations_id ON log.operations (operation_id);
CREATE INDEX operations_last ON log.operations (owner, last_pos);

-- Keys that personal fields of events are sealed with, one a subject, themselves
-- sealed with the key-encryption key. To erase a person is to empty their row:
-- the log and all its copies stay as they are, and unreadable in these fields.
CREATE TABLE log.subject_keys (
  subject     text COLLATE "C" PRIMARY KEY,
  key         bytea, -- null once shredded
  shredded_at timestamptz,
  CHECK ((key IS NULL) = (shredded_at IS NOT NULL))
);

-- Seals: signed Merkle roots over stretches of the log, one a day and on demand.
-- Each names the one before, so that none can be left out or exchanged.
CREATE TABLE log.seals (
  seq       bigint PRIMARY KEY,
  from_pos  bigint NOT NULL,
  to_pos    bigint NOT NULL,
  epoch     int    NOT NULL,
  root      bytea  NOT NULL, -- RFC 6962 tree hash over the events' hashes
  prev      bytea  NOT NULL, -- SHA-256 of the seal before; empty for the first
  at        timestamptz NOT NULL,
  key_id    text   NOT NULL,
  signature bytea  NOT NULL  -- Ed25519
);

CREATE TRIGGER seals_change BEFORE UPDATE OR DELETE ON log.seals
  FOR EACH ROW EXECUTE FUNCTION log.refuse_change();
CREATE TRIGGER seals_truncate BEFORE TRUNCATE ON log.seals
  FOR EACH STATEMENT EXECUTE FUNCTION log.refuse_change();

-- Snapshots spare the reading of long streams. They may be removed at any time.
CREATE TABLE log.snapshots (
  stream_id text  COLLATE "C" PRIMARY KEY,
  version   int   NOT NULL,
  form      int   NOT NULL, -- of the state; one of another form is not used
  hash      bytea NOT NULL, -- of the event of that version
  state     bytea NOT NULL
) WITH (fillfactor = 70);

-- How far each follower of the log got, moved in the transaction of its effects.
CREATE TABLE log.checkpoints (
  name   text   NOT NULL,
  epoch  int    NOT NULL,
  pos    bigint NOT NULL,
  PRIMARY KEY (name)
) WITH (fillfactor = 50);

-- Events a follower could not apply. It stands still there until the program is
-- mended or someone decides to go on without the event.
CREATE TABLE log.dead_letters (
  name       text   NOT NULL,
  pos        bigint NOT NULL,
  error      text   NOT NULL,
  at         timestamptz NOT NULL DEFAULT now(),
  skipped_at timestamptz,
  PRIMARY KEY (name, pos)
);

-- Leases elect one process for work that only one should do at a time. They are
-- an economy, never a guarantee: whatever is done under one is fenced elsewhere.
CREATE TABLE log.leases (
  name  text PRIMARY KEY,
  owner text NOT NULL,
  until timestamptz NOT NULL
);
