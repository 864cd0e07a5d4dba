-- name: FindDatabaseTime :one
SELECT clock_timestamp()::timestamptz;

-- name: ListCircuitOverrides :many
SELECT * FROM circuit_overrides ORDER BY key;

-- name: InsertCircuitOverride :execrows
-- A decision replaces those before it; one that was made later stays.
INSERT INTO circuit_overrides AS present (key, state, reason, actor, set_at, until)
VALUES (@key, @state, @reason, @actor, @set_at, sqlc.narg(until))
ON CONFLICT (key) DO UPDATE
SET state = excluded.state, reason = excluded.reason, actor = excluded.actor, set_at = excluded.set_at, until = excluded.until
WHERE present.set_at <= excluded.set_at;

-- name: DeleteCircuitOverride :execrows
-- The end of an operator state; one that was decided later stays.
DELETE FROM circuit_overrides WHERE key = @key AND set_at <= @set_at;

-- name: DeleteExpiredCircuitOverrides :execrows
DELETE FROM circuit_overrides WHERE until <= now();
