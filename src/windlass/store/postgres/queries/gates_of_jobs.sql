-- The gates that some jobs wait at or are beyond. Callers: the store, before and after it steers them. Lock: none.
SELECT p.gate FROM windlass.pass p WHERE p.job = ANY ($1)
 UNION
SELECT h.gate FROM windlass.held h WHERE h.id = ANY ($1) AND h.gate IS NOT NULL
