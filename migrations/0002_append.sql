-- Appending is one call of one of these two functions: one transaction, one round
-- trip. Both first take the lock that orders all appends by moving the head of
-- the log, so the statements after that see everything committed before, and put
-- back what was not used.
--
-- The arrays run in parallel: m_ over operations, g_ over the streams they were
-- decided on, with the version before and after, and e_ over the events.
--
-- Outcomes: 0 recorded, 1 the key has a receipt by now, 2 a guarded stream has
-- moved. base is the position before the first event.

-- append_one appends a single operation, which is what a program does that is not
-- busy: nothing is unpacked that need not be.
CREATE FUNCTION log.append_one(
  m_owner text, m_key text, m_operation text, m_tool text, m_hash bytea, m_status text, m_result bytea,
  m_at timestamptz, m_board text, m_correlation text,
  g_stream text[], g_before int[], g_after int[],
  e_id text[], e_stream text[], e_version int[], e_type text[], e_schema smallint[], e_data bytea[], e_prev bytea[], e_hash bytea[],
  OUT base bigint, OUT outcome int
) LANGUAGE plpgsql AS $$
DECLARE
  added constant int := coalesce(cardinality(e_id), 0);
BEGIN
  UPDATE log.head AS h
  SET pos = h.pos + added
  WHERE h.shard = 0
  RETURNING h.pos - added INTO base;

  PERFORM
  FROM unnest(g_stream, g_before) AS g(stream, before)
  LEFT JOIN log.streams AS s ON s.stream_id = g.stream
  WHERE coalesce(s.version, 0) <> g.before
  LIMIT 1;
  IF FOUND THEN
    outcome := CASE
      WHEN EXISTS (
        SELECT FROM log.operations AS o
        WHERE o.owner = m_owner AND o.op_key = m_key) THEN 1
      ELSE 2
    END;
  ELSE
    INSERT INTO log.operations (owner, op_key, operation_id, tool, args_hash, status, result, last_pos, at)
    VALUES (m_owner, m_key, m_operation, m_tool, m_hash, m_status, m_result, CASE WHEN added > 0 THEN base + added ELSE 0 END, m_at)
    ON CONFLICT (owner, op_key) DO NOTHING;
    outcome := CASE WHEN FOUND THEN 0 ELSE 1 END;
  END IF;
  IF outcome <> 0 THEN
    UPDATE log.head AS h
    SET pos = base
    WHERE h.shard = 0;
    RETURN;
  END IF;

  INSERT INTO log.events (pos, id, stream_id, version, type, schema_v, actor, board, causation, correlation, at, data, prev_hash, hash)
  SELECT base + generate_series(1, added), unnest(e_id), unnest(e_stream), unnest(e_version), unnest(e_type), unnest(e_schema),
         m_owner, m_board, m_operation, m_correlation, m_at, unnest(e_data), unnest(e_prev), unnest(e_hash);

  INSERT INTO log.streams (stream_id, version, first_pos)
  SELECT g.stream, g.after, base + 1
  FROM unnest(g_stream, g_before, g_after) AS g(stream, before, after)
  WHERE g.after > g.before
  ON CONFLICT (stream_id) DO UPDATE SET version = excluded.version;
END $$;

-- append_batch appends all that queued meanwhile. Each member has its own outcome;
-- none can fail its neighbours. The caller promises that no two members share an
-- operation key, and that no member guards a stream which another one writes.
--
-- m_last counts the events up to the member's last. outcomes is null when all
-- members were recorded, else it has one for each. The events of recorded members
-- follow base without gaps.
CREATE FUNCTION log.append_batch(
  m_owner text[], m_key text[], m_operation text[], m_tool text[], m_hash bytea[], m_status text[], m_result bytea[],
  m_at timestamptz[], m_board text[], m_correlation text[], m_last int[],
  g_member int[], g_stream text[], g_before int[], g_after int[],
  e_member int[], e_id text[], e_stream text[], e_version int[], e_type text[], e_schema smallint[], e_data bytea[], e_prev bytea[], e_hash bytea[],
  OUT base bigint, OUT outcomes int[]
) LANGUAGE plpgsql AS $$
DECLARE
  members constant int := cardinality(m_owner);
  added   constant int := coalesce(cardinality(e_id), 0);
  ok      boolean[] := array_fill(true, ARRAY[members]);
  missing int[]     := array_fill(0, ARRAY[members]); -- events up to the member's last that are not recorded
BEGIN
  UPDATE log.head AS h
  SET pos = h.pos + added
  WHERE h.shard = 0
  RETURNING h.pos - added INTO base;

  IF EXISTS (
      SELECT FROM unnest(m_owner, m_key) AS m(owner, key)
      JOIN log.operations AS o ON o.owner = m.owner AND o.op_key = m.key)
    OR EXISTS (
      SELECT FROM unnest(g_stream, g_before) AS g(stream, before)
      LEFT JOIN log.streams AS s ON s.stream_id = g.stream
      WHERE coalesce(s.version, 0) <> g.before)
  THEN
    SELECT array_agg(j.outcome ORDER BY j.i), array_agg(j.outcome = 0 ORDER BY j.i), array_agg(j.missing ORDER BY j.i)
    INTO outcomes, ok, missing
    FROM (
      SELECT k.i, k.outcome,
             sum(CASE k.outcome WHEN 0 THEN 0 ELSE m_last[k.i] - coalesce(m_last[k.i - 1], 0) END) OVER (ORDER BY k.i)::int AS missing
      FROM (
        SELECT m.i::int AS i,
               CASE
                 WHEN EXISTS (
                   SELECT FROM log.operations AS o
                   WHERE o.owner = m.owner AND o.op_key = m.key) THEN 1
                 WHEN m.i IN (
                   SELECT g.member
                   FROM unnest(g_member, g_stream, g_before) AS g(member, stream, before)
                   LEFT JOIN log.streams AS s ON s.stream_id = g.stream
                   WHERE coalesce(s.version, 0) <> g.before) THEN 2
                 ELSE 0
               END AS outcome
        FROM unnest(m_owner, m_key) WITH ORDINALITY AS m(owner, key, i)
      ) AS k
    ) AS j;

    UPDATE log.head AS h
    SET pos = base + added - missing[members]
    WHERE h.shard = 0;
  END IF;

  INSERT INTO log.events (pos, id, stream_id, version, type, schema_v, actor, board, causation, correlation, at, data, prev_hash, hash)
  SELECT base + e.i - missing[e.member], e.id, e.stream, e.version, e.type, e.schema_v,
         m_owner[e.member], m_board[e.member], m_operation[e.member], m_correlation[e.member], m_at[e.member],
         e.data, e.prev, e.hash
  FROM (
    SELECT generate_series(1, added) AS i, unnest(e_member) AS member, unnest(e_id) AS id, unnest(e_stream) AS stream,
           unnest(e_version) AS version, unnest(e_type) AS type, unnest(e_schema) AS schema_v,
           unnest(e_data) AS data, unnest(e_prev) AS prev, unnest(e_hash) AS hash
  ) AS e
  WHERE ok[e.member];

  INSERT INTO log.streams (stream_id, version, first_pos)
  SELECT g.stream, g.after, base + 1
  FROM (SELECT unnest(g_member) AS member, unnest(g_stream) AS stream, unnest(g_before) AS before, unnest(g_after) AS after) AS g
  WHERE g.after > g.before AND ok[g.member]
  ON CONFLICT (stream_id) DO UPDATE SET version = excluded.version;

  INSERT INTO log.operations (owner, op_key, operation_id, tool, args_hash, status, result, last_pos, at)
  SELECT m.owner, m.key, m.operation, m.tool, m.hash, m.status, m.result,
         CASE WHEN m.last > coalesce(m_last[m.i - 1], 0) THEN base + m.last - missing[m.i] ELSE 0 END, m.at
  FROM (
    SELECT generate_series(1, members) AS i, unnest(m_owner) AS owner, unnest(m_key) AS key, unnest(m_operation) AS operation,
           unnest(m_tool) AS tool, unnest(m_hash) AS hash, unnest(m_status) AS status, unnest(m_result) AS result,
           unnest(m_at) AS at, unnest(m_last) AS last
  ) AS m
  WHERE ok[m.i];
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
