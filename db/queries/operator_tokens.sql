-- name: InsertOperatorToken :one
INSERT INTO operator_tokens (id, name, role, prefix, secret_hash, created_at, expires_at)
VALUES (
    @id, @name, @role, @prefix, @secret_hash, now(),
    CASE WHEN sqlc.arg(ttl_ms)::bigint > 0 THEN now() + sqlc.arg(ttl_ms)::bigint * interval '1 millisecond' END
)
RETURNING *;

-- name: UpdateExpiredOperatorTokens :exec
-- An expired token gives its name free.
UPDATE operator_tokens SET revoked_at = expires_at
WHERE name = @name AND revoked_at IS NULL AND expires_at <= now();

-- name: FindLiveOperatorToken :one
-- left_ms is what is left of its time, or -1 when it has no end.
SELECT id, name, role, secret_hash,
    coalesce((extract(epoch FROM expires_at - now()) * 1000)::bigint, -1)::bigint AS left_ms
FROM operator_tokens
WHERE prefix = @prefix AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: ListOperatorTokens :many
SELECT * FROM operator_tokens ORDER BY created_at, id;

-- name: UpdateOperatorTokenRevoked :one
-- A token that is revoked stays revoked since when it was.
WITH found AS (
    SELECT id, revoked_at FROM operator_tokens WHERE id::text = @id_or_prefix::text OR prefix = @id_or_prefix::text FOR UPDATE
)
UPDATE operator_tokens t SET revoked_at = coalesce(t.revoked_at, now())
FROM found WHERE t.id = found.id
RETURNING sqlc.embed(t), (found.revoked_at IS NOT NULL)::boolean AS already;
