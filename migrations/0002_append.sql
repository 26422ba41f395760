-- One call appends a whole batch: one statement, one transaction, one round trip.
-- Each member has its own outcome; none can fail its neighbours. The caller
-- promises that within a batch no two members share an operation key, and that no
-- member guards a stream which another member of the batch writes.
--
-- Outcomes: 0 recorded, 1 replay (the stored receipt is returned), 2 a guarded
-- stream has moved, 3 the key was used with other arguments.
CREATE FUNCTION log.append_batch(
  m_owner text[], m_key text[], m_operation text[], m_tool text[], m_hash bytea[], m_status text[], m_result bytea[], m_at timestamptz[],
  g_member int[], g_stream text[], g_version int[],
  e_member int[], e_id text[], e_stream text[], e_version int[], e_type text[], e_schema smallint[],
  e_actor text[], e_board text[], e_causation text[], e_correlation text[], e_at timestamptz[],
  e_data bytea[], e_prev bytea[], e_hash bytea[]
) RETURNS TABLE (member int, outcome int, epoch int, first_pos bigint, last_pos bigint, operation_id text, status text, result bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  base  bigint;
  era   int;
  added bigint;
  ok    int[];
BEGIN
  SELECT h.pos, h.epoch INTO base, era
  FROM log.head AS h
  WHERE h.shard = 0
  FOR UPDATE;

  -- Statements after the lock see everything committed before it was granted.
  WITH moved AS (
    SELECT g.member
    FROM unnest(g_member, g_stream, g_version) AS g(member, stream, version)
    LEFT JOIN log.streams AS s ON s.stream_id = g.stream
    WHERE coalesce(s.version, 0) <> g.version
  )
  SELECT coalesce(array_agg(m.i::int), '{}') INTO ok
  FROM unnest(m_owner, m_key) WITH ORDINALITY AS m(owner, key, i)
  WHERE NOT EXISTS (
      SELECT FROM log.operations AS o
      WHERE o.owner = m.owner AND o.op_key = m.key)
    AND NOT EXISTS (SELECT FROM moved WHERE moved.member = m.i);

  INSERT INTO log.events (pos, id, stream_id, version, type, schema_v, actor, board, causation, correlation, at, data, prev_hash, hash)
  SELECT base + row_number() OVER (ORDER BY e.i), e.id, e.stream, e.version, e.type, e.schema_v,
         e.actor, e.board, e.causation, e.correlation, e.at, e.data, e.prev_hash, e.hash
  FROM unnest(e_member, e_id, e_stream, e_version, e_type, e_schema, e_actor, e_board, e_causation, e_correlation, e_at, e_data, e_prev, e_hash)
    WITH ORDINALITY AS e(member, id, stream, version, type, schema_v, actor, board, causation, correlation, at, data, prev_hash, hash, i)
  WHERE e.member = ANY (ok);
  GET DIAGNOSTICS added = ROW_COUNT;

  INSERT INTO log.streams AS s (stream_id, version, first_pos)
  SELECT e.stream, max(e.version), base + 1
  FROM unnest(e_member, e_stream, e_version) AS e(member, stream, version)
  WHERE e.member = ANY (ok)
  GROUP BY e.stream
  ON CONFLICT (stream_id) DO UPDATE SET version = excluded.version;

  RETURN QUERY
  WITH span AS (
    SELECT e.member, count(*) AS events, max(base + e.n) AS last
    FROM (
      SELECT x.member, row_number() OVER (ORDER BY x.i) AS n
      FROM unnest(e_member) WITH ORDINALITY AS x(member, i)
      WHERE x.member = ANY (ok)
    ) AS e
    GROUP BY e.member
  ), added AS (
    INSERT INTO log.operations (owner, op_key, operation_id, tool, args_hash, status, result, last_pos, at)
    SELECT m.owner, m.key, m.operation, m.tool, m.hash, m.status, m.result, coalesce(span.last, 0), m.at
    FROM unnest(m_owner, m_key, m_operation, m_tool, m_hash, m_status, m_result, m_at)
      WITH ORDINALITY AS m(owner, key, operation, tool, hash, status, result, at, i)
    LEFT JOIN span ON span.member = m.i
    WHERE m.i = ANY (ok)
  )
  SELECT m.i::int,
         CASE
           WHEN m.i = ANY (ok) THEN 0
           WHEN o.owner IS NULL THEN 2
           WHEN o.args_hash = m.hash AND o.tool = m.tool THEN 1
           ELSE 3
         END,
         era,
         CASE WHEN m.i = ANY (ok) THEN span.last - span.events + 1 END,
         CASE WHEN m.i = ANY (ok) THEN coalesce(span.last, 0) ELSE o.last_pos END,
         o.operation_id, o.status, o.result
  FROM unnest(m_owner, m_key, m_hash, m_tool) WITH ORDINALITY AS m(owner, key, hash, tool, i)
  LEFT JOIN log.operations AS o ON o.owner = m.owner AND o.op_key = m.key
  LEFT JOIN span ON span.member = m.i
  ORDER BY m.i;

  UPDATE log.head AS h SET pos = base + added WHERE h.shard = 0 AND added > 0;
END $$;

GRANT USAGE ON SCHEMA log TO sidequest_app;
GRANT SELECT, INSERT ON log.events, log.operations, log.seals TO sidequest_app;
GRANT SELECT, INSERT, UPDATE ON log.streams TO sidequest_app;
GRANT SELECT, INSERT, UPDATE ON log.subject_keys TO sidequest_app;
GRANT SELECT, UPDATE ON log.head TO sidequest_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON log.checkpoints, log.dead_letters, log.leases, log.snapshots TO sidequest_app;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA log TO sidequest_app;
REVOKE EXECUTE ON FUNCTION log.make_partitions() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION log.make_partitions() TO sidequest_app;
