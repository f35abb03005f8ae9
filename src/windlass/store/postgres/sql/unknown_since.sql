-- The options of a job that is offered again: since when no worker has known its task, or no word of it [O4].
-- Callers: finish_others, give_back, split, retry, retry_many. Lock: none. The first time counts until the attempt
-- ends in another way.
CREATE OR REPLACE FUNCTION windlass.unknown_since(p_options json, p_unknown boolean) RETURNS json
LANGUAGE plpgsql AS $$
BEGIN
    IF p_unknown AND p_options ->> 'unknown_since' IS NULL THEN
        RETURN (coalesce(p_options::jsonb, '{}')
                || jsonb_build_object('unknown_since', date_part('epoch', windlass.now())))::json;
    ELSIF NOT p_unknown AND p_options ->> 'unknown_since' IS NOT NULL THEN
        RETURN nullif((p_options::jsonb - 'unknown_since')::text, '{}')::json;
    END IF;
    RETURN p_options;
END $$;
