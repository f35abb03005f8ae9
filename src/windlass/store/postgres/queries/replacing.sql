-- Whether some of these jobs have yet to take the place of another. Callers: the store, before it ends them. Lock: none.
SELECT EXISTS (SELECT FROM windlass.deferred d WHERE d.id = ANY ($1) AND d.replaces IS NOT NULL)
