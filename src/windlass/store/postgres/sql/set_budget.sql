-- Changes some settings of a budget live, or makes it, which needs a rate [F1]. Callers: users, the store. Lock: those of
-- budget_change. A setting that does not exist, or makes no sense, is refused, and nothing is changed.
CREATE OR REPLACE FUNCTION windlass.set_budget(p_name text, p_changes jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    b windlass.budget;
BEGIN
    PERFORM windlass.check_budget(p_name, p_changes), windlass.budget_lock(p_name);
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_name;
    IF FOUND THEN
        PERFORM windlass.budget_change(jsonb_populate_record(b, p_changes));
        RETURN;
    ELSIF p_changes -> 'rate' IS NULL THEN
        RAISE EXCEPTION 'there is no budget %', quote_literal(p_name) USING ERRCODE = 'WL005',
            HINT = 'Give it a rate to make it.';
    END IF;
    b := jsonb_populate_record(b, p_changes || jsonb_build_object('name', p_name));
    b.burst := coalesce(b.burst, greatest(1, ceil(b.rate)));
    PERFORM windlass.budget_add(b);
END $$;
