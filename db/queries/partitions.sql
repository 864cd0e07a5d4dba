-- name: ListPartitions :many
SELECT child.relname::text AS name
FROM pg_catalog.pg_inherits i
JOIN pg_catalog.pg_class child ON child.oid = i.inhrelid
WHERE i.inhparent = (@parent::text)::regclass
ORDER BY child.relname;

-- One process at a time changes the partitions; the lock ends with the
-- transaction.

-- name: LockPartitions :exec
SELECT pg_advisory_xact_lock(hashtext('breakwater telemetry partitions'));

-- A change that waits for a table makes everyone else wait behind it, so it
-- gives up soon instead.

-- name: LimitLockWait :exec
SET LOCAL lock_timeout = '1s';
