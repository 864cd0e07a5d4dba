-- name: ListCircuitEvents :many
SELECT * FROM circuit_events
WHERE at >= @since
ORDER BY at DESC
LIMIT @row_limit;
