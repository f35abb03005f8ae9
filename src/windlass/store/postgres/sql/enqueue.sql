-- Adds one job, from psql, a trigger or any language, in the caller's own transaction [E1].
-- Callers: users. Lock: those of enqueue_many or enqueue_one. Answers with the job's id.
-- A transaction that is to be prepared must not notify: SET LOCAL windlass.notify = off before it (see wake).
-- after: ids of jobs that must have succeeded first; otherwise: dead, cancel or run, where one ends in another way [P12].
-- ordering_key: one job of it at a time, in order [F6]; concurrency_key: no more than key_limit of it at a time [F3].
--   SELECT windlass.enqueue('mail.send', '{"to": "a@b.c"}', queue => 'mail', delay => '5 minutes');
CREATE OR REPLACE FUNCTION windlass.enqueue(
    task text, args json DEFAULT '{}', queue text DEFAULT 'default', priority text DEFAULT 'normal',
    delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, max_attempts int DEFAULT NULL,
    timeout interval DEFAULT NULL, unique_key text DEFAULT NULL, on_conflict text DEFAULT 'skip',
    idempotency_key text DEFAULT NULL, fair_key text DEFAULT NULL, tags text[] DEFAULT NULL,
    headers json DEFAULT NULL, trace text DEFAULT NULL, after bigint[] DEFAULT NULL, otherwise text DEFAULT 'dead',
    ordering_key text DEFAULT NULL, concurrency_key text DEFAULT NULL, key_limit int DEFAULT 1)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_priority smallint := array_position(ARRAY['urgent', 'high', 'normal', 'low'], priority) - 1;
    v_options  text;
BEGIN
    IF v_priority IS NULL THEN
        RAISE EXCEPTION 'unknown priority %', quote_nullable(priority) USING ERRCODE = 'WL005',
            HINT = 'Use urgent, high, normal or low.';
    ELSIF max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'max_attempts must lie between 1 and 1000' USING ERRCODE = 'WL005';
    ELSIF run_at NOT BETWEEN '1970-01-01' AND '2200-01-01' THEN
        RAISE EXCEPTION 'run_at % is out of range', run_at USING ERRCODE = 'WL005',
            HINT = 'Use a time between the years 1970 and 2200.';
    ELSIF delay NOT BETWEEN interval '0' AND interval '100 years' OR timeout <= interval '0' THEN
        RAISE EXCEPTION 'delay and timeout must be positive, and delay at most 100 years' USING ERRCODE = 'WL005';
    ELSIF on_conflict IS NULL OR on_conflict NOT IN ('skip', 'replace', 'reject') THEN
        RAISE EXCEPTION 'on_conflict must be skip, replace or reject' USING ERRCODE = 'WL005';
    END IF;
    v_options := nullif(json_strip_nulls(json_build_object(
        'max_attempts', max_attempts, 'timeout', date_part('epoch', timeout), 'unique_key', unique_key,
        'fair_key', fair_key, 'tags', tags, 'headers', headers, 'trace', trace, 'after', nullif(after, '{}'),
        'otherwise', nullif(otherwise, 'dead'), 'ordering_key', ordering_key, 'concurrency_key', concurrency_key,
        'key_limit', nullif(key_limit, 1)))::text, '{}');
    IF delay IS NULL AND run_at IS NULL AND unique_key IS NULL AND idempotency_key IS NULL
       AND coalesce(after, '{}') = '{}' THEN
        RETURN (windlass.enqueue_many(queue, v_priority, ARRAY[task], ARRAY[args::text], ARRAY[v_options]))[1];
    END IF;
    RETURN (SELECT e.job FROM windlass.enqueue_one(task, args::text, queue, v_priority, date_part('epoch', delay), run_at,
                                                   v_options, on_conflict, idempotency_key) AS e);
END $$;
