-- Refuses a job that is to come after one that is not there [P12]. Callers: enqueue_one. Lock: ACCESS SHARE on claim, as in
-- finish, so that the snapshot that looks for them is younger than any rotation that moved them.
CREATE OR REPLACE FUNCTION windlass.check_after(p_after bigint[], p_known boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_missing bigint;
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    IF p_known THEN
        RETURN;
    END IF;
    SELECT a INTO v_missing FROM unnest(p_after) AS a
     WHERE NOT EXISTS (SELECT FROM windlass.standing_of(a)) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'there is no job % to come after', v_missing USING ERRCODE = 'WL010',
            HINT = 'It never existed, was deleted, or its retention has passed.';
    END IF;
END $$;
