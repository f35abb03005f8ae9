-- Refuses what must not be done before the store was adopted: on a server that was promoted, restored or has recovered from a
-- crash, numbers might be given out a second time [S3]. Callers: lane_sure, take_ahead, give_back, rotation_begin, lead,
-- register, worker_fence, worker_alone. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_epoch() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF windlass.epoch_here() IS DISTINCT FROM (SELECT m.epoch FROM windlass.meta m WHERE m.single) THEN
        PERFORM windlass.check_unsubscribed();
        RAISE EXCEPTION 'this server has recovered, was promoted or holds a copy, and was not adopted since'
            USING ERRCODE = 'WL013', HINT = 'The next worker adopts it, or you do: SELECT windlass.adopt(false).';
    END IF;
END $$;
