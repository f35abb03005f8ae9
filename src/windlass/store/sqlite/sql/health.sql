-- How the store is doing. Called by health, in a read transaction.

-- :sizes  the bytes of tables with their indexes. This reads every page of the file.
SELECT s.tbl_name, sum(d.pgsize)
FROM dbstat d JOIN sqlite_schema s ON s.name = d.name
WHERE d.aggregate = 1 AND s.tbl_name >= 'windlass_' AND s.tbl_name < 'windlass`'
GROUP BY s.tbl_name ORDER BY 2 DESC;

-- :news
SELECT count(*) FROM (SELECT 1 FROM windlass_news LIMIT ?);

-- :term
SELECT until FROM windlass_term;

-- :lanes  that jobs stand in or aside of
SELECT id, queue, ready, held, id << 44 | hi, (id + 1) << 44 FROM windlass_lane WHERE ready + held > 0 ORDER BY id;

-- :in_lane  beyond the cursor stand exactly the ready jobs [I1]
SELECT task, count(*) FROM (SELECT task FROM windlass_job WHERE pos > ? AND pos < ? ORDER BY pos LIMIT ?) GROUP BY task;

-- :aside
SELECT task, count(*) FROM (SELECT task FROM windlass_job WHERE state = 9 AND lane = ? LIMIT ?) GROUP BY task;
