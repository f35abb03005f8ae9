-- Keeps one failed attempt in the failure log. Callers: finish_others; finish, for attempt 0, which
-- says that earlier ones are forgotten [O1]. Lock: pins the segment.
CREATE OR REPLACE FUNCTION windlass.note_failure(
    p_job bigint, p_attempt int, p_type text, p_message text, p_traceback text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.failure (segment, job, at, attempt, type, message, traceback)
    VALUES (windlass.pin_segment(), p_job, windlass.now(), p_attempt, p_type, p_message, p_traceback);
END $$;
