-- What becomes of a lane's holes with one claim: found jobs leave them, gaps join them, the dead ones go.
-- Callers: claim_take, take_ahead. Lock: the lane's, held by the caller.
-- p_dead: every xid below it is done, or NULL where this claim may not drop anything (it has not probed, or
-- left visible jobs behind). p_xid: the claim's own xid, the horizon of whatever it saw missing; NULL where the
-- caller saw nothing missing and its xid may be older than holes that are known already: no horizon moves then.
-- Two generations: gaps join `young`; once `old` is gone, young becomes old with the horizon of that moment.
-- More than 32 ranges are spilled, so that a claim row stays small.
CREATE OR REPLACE FUNCTION windlass.hole_state(
    c windlass.claim, p_taken int8multirange, p_gaps int8multirange, p_dead bigint, p_xid bigint,
    OUT young int8multirange, OUT old int8multirange, OUT horizon bigint, OUT spilled bigint[], OUT holes bigint)
LANGUAGE plpgsql AS $$
DECLARE
    s windlass.seq_set;
BEGIN
    young := coalesce(c.young, '{}') - p_taken + p_gaps;
    old := coalesce(c.old, '{}') - p_taken;
    horizon := c.old_horizon;
    IF p_dead >= horizon THEN
        old := '{}';
    END IF;
    FOR s IN SELECT * FROM windlass.seq_set WHERE id = ANY (c.spilled) LOOP
        IF p_dead >= s.horizon THEN
            CONTINUE;
        -- Holes lie at or below hi: a claim that took nothing there need not unpack a large set to see so.
        ELSIF lower(p_taken) <= c.hi AND s.seqs && p_taken THEN
            spilled := windlass.spill(c.lane, s.seqs - p_taken, s.horizon, '{}') || spilled;
        ELSE
            spilled := s.id || spilled;
        END IF;
    END LOOP;
    IF p_xid IS NOT NULL AND isempty(old) AND NOT isempty(young) THEN
        old := young;
        young := '{}';
        horizon := p_xid;
    END IF;
    IF p_xid IS NOT NULL AND (SELECT count(*) FROM unnest(old)) + (SELECT count(*) FROM unnest(young)) > 32 THEN
        spilled := windlass.spill(c.lane, old + young, p_xid, coalesce(spilled, '{}'));
        old := '{}';
        young := '{}';
    END IF;
    holes := windlass.size_of(young) + windlass.size_of(old);
    IF spilled IS NOT NULL THEN
        holes := holes + (SELECT coalesce(sum(n), 0) FROM windlass.seq_set WHERE id = ANY (spilled));
    END IF;
    young := nullif(young, '{}');
    old := nullif(old, '{}');
    IF old IS NULL THEN
        horizon := NULL;
    END IF;
END $$;
