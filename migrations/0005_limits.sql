-- Who wrote how much lately, counted for all processes together. It is a brake,
-- not a record: a crash of the server empties it.
CREATE SCHEMA limits;

CREATE UNLOGGED TABLE limits.writes (
  subject text COLLATE "C" NOT NULL,
  op      text COLLATE "C" NOT NULL,
  at      timestamptz NOT NULL,
  PRIMARY KEY (subject, op)
);
CREATE INDEX writes_at ON limits.writes (subject, at);

-- take counts one operation against each subject's cap per span, once however
-- often it is repeated, and returns null. If a cap is reached it counts nothing
-- and returns how long to wait.
CREATE FUNCTION limits.take(subjects text[], caps int[], op_id text, span interval) RETURNS interval
LANGUAGE plpgsql AS $$
DECLARE
  now  timestamptz := clock_timestamp();
  wait interval;
BEGIN
  PERFORM pg_advisory_xact_lock(7301, hashtext(s))
  FROM (SELECT unnest(subjects) AS s ORDER BY 1) AS ordered;

  now := clock_timestamp();
  DELETE FROM limits.writes AS w WHERE w.subject = ANY (subjects) AND w.at <= now - span;

  SELECT max(full_up.free_at - now) INTO wait
  FROM (
    SELECT min(w.at) + span AS free_at
    FROM unnest(subjects, caps) AS c(subject, cap)
    JOIN limits.writes AS w ON w.subject = c.subject
    WHERE NOT EXISTS (
      SELECT FROM limits.writes AS mine
      WHERE mine.subject = c.subject AND mine.op = op_id)
    GROUP BY c.subject, c.cap
    HAVING count(*) >= c.cap
  ) AS full_up;
  IF wait IS NOT NULL THEN
    RETURN wait;
  END IF;

  INSERT INTO limits.writes (subject, op, at)
  SELECT s, op_id, now
  FROM unnest(subjects) AS s
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

GRANT USAGE ON SCHEMA limits TO sidequest_app;
GRANT SELECT, INSERT, DELETE ON limits.writes TO sidequest_app;
GRANT EXECUTE ON FUNCTION limits.take(text[], int[], text, interval) TO sidequest_app;
