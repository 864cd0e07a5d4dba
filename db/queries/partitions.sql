-- name: ListPartitions :many
SELECT child.relname::text AS name
FROM pg_catalog.pg_inherits i
JOIN pg_catalog.pg_class child ON child.oid = i.inhrelid
WHERE i.inhparent = (@parent::text)::regclass
ORDER BY child.relname;
