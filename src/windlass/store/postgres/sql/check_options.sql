-- Refuses options that no worker could read [E4]: they would poison every claim that holds such a job [fault 17].
-- Callers: enqueue_many, enqueue_mixed, enqueue_one. Lock: none. Answers with them in the form that was judged: text may name a
-- thing twice, or write 5 as 5e0. What only the store may say of a job (unknown_since, part) is left out.
CREATE OR REPLACE FUNCTION windlass.check_options(p_options text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    o       jsonb := p_options::jsonb;
    v_wrong text := CASE
        WHEN jsonb_typeof(o) <> 'object' THEN 'options'
        WHEN jsonb_typeof(o -> 'max_attempts') <> 'number' OR o ->> 'max_attempts' !~ '^[1-9][0-9]{0,3}$'
             OR (o ->> 'max_attempts')::int > 1000 THEN 'max_attempts'
        WHEN jsonb_typeof(o -> 'timeout') NOT IN ('number', 'null')
             OR (o ->> 'timeout')::numeric NOT BETWEEN 0.001 AND 2592000 THEN 'timeout'
        WHEN jsonb_typeof(o -> 'tags') <> 'array' OR o @? 'strict $.tags[*] ? (@.type() != "string")' THEN 'tags'
        WHEN jsonb_typeof(o -> 'headers') <> 'object' OR o @? 'strict $.headers.* ? (@.type() != "string")' THEN 'headers'
        WHEN jsonb_typeof(o -> 'replay_of') NOT IN ('number', 'null') OR o ->> 'replay_of' !~ '^[1-9][0-9]{0,18}$'
             OR (o ->> 'replay_of')::numeric > 9223372036854775807 THEN 'replay_of'
        WHEN jsonb_typeof(o -> 'chunked') <> 'boolean' THEN 'chunked'
        WHEN jsonb_typeof(o -> 'after') <> 'array'
             OR o @? 'strict $.after[*] ? (@.type() != "number" || @ < 1 || @ > 9223372036854775807 || @.floor() != @)'
             THEN 'after'
        WHEN jsonb_typeof(o -> 'otherwise') <> 'string' OR o ->> 'otherwise' NOT IN ('dead', 'cancel', 'run') THEN 'otherwise'
        WHEN jsonb_typeof(o -> 'key_limit') <> 'number' OR o ->> 'key_limit' !~ '^[1-9][0-9]{0,8}$' THEN 'key_limit'
        WHEN jsonb_typeof(o -> 'task_limit') NOT IN ('number', 'null') OR o ->> 'task_limit' !~ '^[1-9][0-9]{0,8}$'
             THEN 'task_limit'
        ELSE (SELECT k FROM unnest('{unique_key,fair_key,ordering_key,concurrency_key,trace}'::text[]) AS k
               WHERE jsonb_typeof(o -> k) NOT IN ('string', 'null') LIMIT 1) END;
BEGIN
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'the option % is malformed', v_wrong USING ERRCODE = 'WL005',
            HINT = 'Numbers for max_attempts (1 to 1000), timeout, replay_of, key_limit and task_limit, a list of texts for '
                   'tags, texts by name for headers; ids of jobs for after, and dead, cancel or run for otherwise.';
    END IF;
    IF octet_length(o ->> 'fair_key') > 1020 OR octet_length(o ->> 'ordering_key') > 1020
       OR octet_length(o ->> 'concurrency_key') > 1020 THEN
        RAISE EXCEPTION 'a key is longer than 1020 bytes' USING ERRCODE = 'WL005';
    END IF;
    RETURN nullif((o - 'unknown_since' - 'part')::text, '{}');
END $$;
