-- Appending with less work in the server.
--
-- An operation's id follows from its owner and key, so one unique index over it
-- guards both. A program of the version before looks receipts up by owner and key;
-- the index on (owner, last_pos) serves it for as long as it still runs.
ALTER TABLE log.operations
  DROP CONSTRAINT operations_pkey,
  ADD CONSTRAINT operations_pkey PRIMARY KEY USING INDEX operations_id;

-- append_single appends one operation that was decided on one stream and records
-- events there: what most writes are. It does the work of append_one in fewer
-- statements, because the guard of the stream and its new version are one, and
-- nothing has to be unpacked but the events.
--
-- It answers the position before the first event, or -1 if the key has a receipt
-- by now, or -2 if the stream has moved. A key whose receipt came without moving
-- the stream is told by the violation of operations_pkey.
CREATE FUNCTION log.append_single(
  m_owner text, m_key text, m_operation text, m_tool text, m_hash bytea, m_status text, m_result bytea,
  m_at timestamptz, m_board text, m_correlation text,
  g_stream text, g_before int,
  e_id text[], e_type text[], e_schema smallint[], e_data bytea[], e_prev bytea[], e_hash bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  added constant int := cardinality(e_id);
  base  bigint;
BEGIN
  UPDATE log.head AS h
  SET pos = h.pos + added
  WHERE h.shard = 0
  RETURNING h.pos - added INTO base;

  IF g_before = 0 THEN
    INSERT INTO log.streams (stream_id, version, first_pos)
    VALUES (g_stream, added, base + 1)
    ON CONFLICT DO NOTHING;
  ELSE
    UPDATE log.streams AS s
    SET version = g_before + added
    WHERE s.stream_id = g_stream AND s.version = g_before;
  END IF;
  IF NOT FOUND THEN
    UPDATE log.head AS h
    SET pos = base
    WHERE h.shard = 0;
    RETURN CASE
      WHEN EXISTS (
        SELECT FROM log.operations AS o
        WHERE o.operation_id = m_operation) THEN -1
      ELSE -2
    END;
  END IF;

  INSERT INTO log.operations (owner, op_key, operation_id, tool, args_hash, status, result, last_pos, at)
  VALUES (m_owner, m_key, m_operation, m_tool, m_hash, m_status, m_result, base + added, m_at);

  FOR i IN 1 .. added LOOP
    INSERT INTO log.events (pos, id, stream_id, version, type, schema_v, actor, board, causation, correlation, at, data, prev_hash, hash)
    VALUES (base + i, e_id[i], g_stream, g_before + i, e_type[i], e_schema[i],
            m_owner, m_board, m_operation, m_correlation, m_at, e_data[i], e_prev[i], e_hash[i]);
  END LOOP;
  RETURN base;
END $$;

-- append_one and append_batch are as before but for the key of a receipt, and that
-- a batch moves the streams there are and inserts the new ones, since an upsert
-- takes the longer way for both.
CREATE OR REPLACE FUNCTION log.append_one(
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
        WHERE o.operation_id = m_operation) THEN 1
      ELSE 2
    END;
  ELSE
    INSERT INTO log.operations (owner, op_key, operation_id, tool, args_hash, status, result, last_pos, at)
    VALUES (m_owner, m_key, m_operation, m_tool, m_hash, m_status, m_result, CASE WHEN added > 0 THEN base + added ELSE 0 END, m_at)
    ON CONFLICT (operation_id) DO NOTHING;
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

CREATE OR REPLACE FUNCTION log.append_batch(
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
      SELECT FROM unnest(m_operation) AS m(operation)
      JOIN log.operations AS o ON o.operation_id = m.operation)
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
                   WHERE o.operation_id = m.operation) THEN 1
                 WHEN m.i IN (
                   SELECT g.member
                   FROM unnest(g_member, g_stream, g_before) AS g(member, stream, before)
                   LEFT JOIN log.streams AS s ON s.stream_id = g.stream
                   WHERE coalesce(s.version, 0) <> g.before) THEN 2
                 ELSE 0
               END AS outcome
        FROM unnest(m_operation) WITH ORDINALITY AS m(operation, i)
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

  UPDATE log.streams AS s
  SET version = g.after
  FROM unnest(g_member, g_stream, g_before, g_after) AS g(member, stream, before, after)
  WHERE s.stream_id = g.stream AND g.before > 0 AND g.after > g.before AND ok[g.member];

  IF 0 = ANY (g_before) THEN
    INSERT INTO log.streams (stream_id, version, first_pos)
    SELECT g.stream, g.after, base + 1
    FROM unnest(g_member, g_stream, g_before, g_after) AS g(member, stream, before, after)
    WHERE g.before = 0 AND g.after > 0 AND ok[g.member];
  END IF;

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

GRANT EXECUTE ON FUNCTION log.append_single TO sidequest_app;
