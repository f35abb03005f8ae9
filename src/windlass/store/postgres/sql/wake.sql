-- Tells whoever listens that a queue has work, or that a job has ended. Callers: offer, finish, split, end_parent, follow,
-- stir_gates, set_queue, warm. Lock: the one that all notifying committers share, at commit.
-- A transaction that has notified cannot be prepared. One that will be says so first (SET LOCAL windlass.notify = off);
-- its jobs are found by polling, within seconds [rule 10].
CREATE OR REPLACE FUNCTION windlass.wake(p_word text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('windlass.notify', true), 'on') <> 'off' THEN
        PERFORM pg_notify('windlass', p_word);
    END IF;
END $$;
