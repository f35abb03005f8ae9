-- place_claim for many positions of a lane, given in ascending order: which claim covers each, NULL where it waits.
-- Callers: list_judged. Lock: none.
-- One probe for each claim, not for each position: the first claim with hi >= seq passed all from there up to its hi. What it
-- passed without taking it may be in a late claim; those are gone through once. Beyond the cursor only what was taken ahead is
-- in a claim at all. The cursor is read here, not by cursor_of, so that it is of the same snapshot as the claims. A position whose
-- claim was truncated away under that snapshot [rule 7] is left out.
CREATE OR REPLACE FUNCTION windlass.list_claims(p_lane int, p_seqs bigint[])
RETURNS TABLE (seq bigint, claim bigint, worker bigint, claimed_at timestamptz)
LANGUAGE plpgsql STABLE ROWS 100 SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    k       windlass.claim;
    c       record;
    i       int := 1;
    v_ahead int8multirange;
    v_rest  bigint[] := '{}';
    v_all   int8multirange;
BEGIN
    SELECT * INTO k FROM windlass.claim x WHERE x.lane = p_lane ORDER BY x.id DESC LIMIT 1;
    v_ahead := windlass.gather(k.ahead, k.ahead_spilled);
    WHILE p_seqs[i] <= k.hi LOOP
        SELECT x.id, x.worker, x.claimed_at, x.hi, x.seqs INTO c FROM windlass.claim x
         WHERE x.lane = p_lane AND x.hi >= p_seqs[i] ORDER BY x.hi, x.id LIMIT 1;
        EXIT WHEN NOT FOUND;
        WHILE p_seqs[i] <= c.hi LOOP
            IF c.seqs @> p_seqs[i] THEN
                seq := p_seqs[i];
                claim := c.id;
                worker := c.worker;
                claimed_at := c.claimed_at;
                RETURN NEXT;
            ELSE
                v_rest := v_rest || p_seqs[i];
            END IF;
            i := i + 1;
        END LOOP;
    END LOOP;
    claim := NULL;
    worker := NULL;
    claimed_at := NULL;
    FOREACH seq IN ARRAY p_seqs[i:] LOOP
        IF seq <= k.hi THEN
            CONTINUE;
        ELSIF seq <@ v_ahead THEN
            v_rest := v_rest || seq;
        ELSE
            RETURN NEXT;
        END IF;
    END LOOP;
    IF v_rest = '{}' THEN
        RETURN;
    END IF;
    v_all := (SELECT range_agg(int8range(s, s, '[]')) FROM unnest(v_rest) AS s);
    RETURN QUERY
    SELECT DISTINCT ON (r.seq) r.seq, l.id, l.worker, l.claimed_at
      FROM unnest(v_rest) AS r (seq)
      LEFT JOIN (SELECT s.seq, x.id, x.worker, x.claimed_at
                   FROM windlass.claim x
                  CROSS JOIN LATERAL (SELECT generate_series(lower(p.span), upper(p.span) - 1) AS seq
                                        FROM unnest(x.seqs * v_all) AS p (span)) AS s
                  WHERE x.lane = p_lane AND x.late AND x.seqs && v_all) AS l ON l.seq = r.seq
     ORDER BY r.seq, l.id DESC;
END $$;
