-- Groups of jobs. `jobs` and `counts` read alone; the others run under the write lock.

-- :is_open
SELECT 1 FROM windlass_after WHERE awaited = ?1 AND job = ?1;

-- :add
INSERT INTO windlass_group_job (group_end, no, job)
SELECT ?1, coalesce((SELECT max(no) FROM windlass_group_job WHERE group_end = ?1), 0) + 1, ?2
WHERE true ON CONFLICT DO NOTHING;

-- :members  with those that have failed
SELECT job, failed FROM windlass_group_job WHERE group_end = ?;

-- :waits  those of these jobs that wait for others
SELECT DISTINCT job FROM windlass_after WHERE job IN (SELECT value FROM json_each(?));

-- :before  what these jobs come after
SELECT DISTINCT awaited FROM windlass_after WHERE job IN (SELECT value FROM json_each(?));

-- :behind  what comes after these jobs
SELECT DISTINCT job FROM windlass_after WHERE awaited IN (SELECT value FROM json_each(?));

-- :may_circle  groups that others come after, with those of their jobs that wait for others
SELECT e.job, e.awaited FROM windlass_after e
WHERE e.job <> e.awaited AND EXISTS (SELECT 1 FROM windlass_group_job g WHERE g.group_end = e.job)
  AND EXISTS (SELECT 1 FROM windlass_after f WHERE f.awaited = e.job AND f.job <> e.job)
  AND EXISTS (SELECT 1 FROM windlass_after f WHERE f.job = e.awaited)
ORDER BY e.job, e.awaited;

-- :jobs  those behind one of them, or all
SELECT job FROM windlass_group_job
WHERE group_end = ?1
  AND no > CASE ?2 WHEN 0 THEN 0
           ELSE (SELECT no FROM windlass_group_job WHERE group_end = ?1 AND job = ?2) END
ORDER BY no LIMIT ?3;

-- :next  the next group, and whether its end is still there
SELECT g.group_end, EXISTS (SELECT 1 FROM windlass_job j WHERE j.id = g.group_end)
           OR EXISTS (SELECT 1 FROM windlass_job j WHERE j.pos = g.group_end AND j.id IS NULL)
FROM windlass_group_job g WHERE g.group_end > ? ORDER BY g.group_end LIMIT 1;

-- :forget  a bounded piece
DELETE FROM windlass_group_job WHERE group_end = ?1 AND no IN
    (SELECT no FROM windlass_group_job WHERE group_end = ?1 ORDER BY no LIMIT ?2);

-- :looked
SELECT group_end FROM windlass_group_look;

-- :look
UPDATE windlass_group_look SET group_end = ?;
