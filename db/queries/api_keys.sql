-- name: InsertAPIKey :one
INSERT INTO api_keys (id, name, owner, prefix, secret_hash, configurations, limits, created_at, expires_at)
VALUES (
    @id, @name, @owner, @prefix, @secret_hash, @configurations, @limits, now(),
    CASE WHEN sqlc.arg(ttl_ms)::bigint > 0 THEN now() + sqlc.arg(ttl_ms)::bigint * interval '1 millisecond' END
)
RETURNING *;

-- name: UpdateExpiredAPIKeys :exec
-- An expired key gives its name free.
UPDATE api_keys SET revoked_at = expires_at
WHERE name = @name AND revoked_at IS NULL AND expires_at <= now();

-- name: FindLiveAPIKey :one
-- left_ms is what is left of its time, or -1 when it has no end.
SELECT id, name, secret_hash, configurations, limits,
    coalesce((extract(epoch FROM expires_at - now()) * 1000)::bigint, -1)::bigint AS left_ms
FROM api_keys
WHERE prefix = @prefix AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: ListAPIKeys :many
SELECT * FROM api_keys ORDER BY created_at, id;

-- name: ListAPIKeyNames :many
SELECT id, name FROM api_keys WHERE id = ANY(@ids::uuid[]);

-- name: UpdateAPIKeyRevoked :one
-- A key that is revoked stays revoked since when it was. The time is that of the
-- statement, not of a transaction around it, so that nobody who asks what was
-- revoked lately asks too late.
WITH found AS (
    SELECT id, revoked_at FROM api_keys WHERE id::text = @id_or_prefix::text OR prefix = @id_or_prefix::text FOR UPDATE
)
UPDATE api_keys k SET revoked_at = coalesce(k.revoked_at, clock_timestamp())
FROM found WHERE k.id = found.id
RETURNING sqlc.embed(k), (found.revoked_at IS NOT NULL)::boolean AS already;

-- name: ListChangedAPIKeys :many
-- Those that were minted or revoked within a time that ends now, by the
-- database's clock.
SELECT prefix, secret_hash, (revoked_at IS NOT NULL)::boolean AS revoked FROM api_keys
WHERE created_at >= now() - sqlc.arg(within_ms)::bigint * interval '1 millisecond'
    OR revoked_at >= now() - sqlc.arg(within_ms)::bigint * interval '1 millisecond';

-- name: ListIssuedAPIKeys :many
-- The newest of those that are live.
SELECT prefix, secret_hash FROM api_keys
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
ORDER BY created_at DESC LIMIT sqlc.arg(at_most);
