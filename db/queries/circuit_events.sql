-- name: InsertCircuitEvents :execrows
INSERT INTO circuit_events (
    node, boot_id, seq, at, provider, model, region,
    from_state, to_state, reason, counts, open_for_ms, actor, note
)
SELECT
    @node::text,
    @boot_id::uuid,
    unnest(@seq::bigint[]),
    unnest(@at::timestamptz[]),
    unnest(@provider::text[]),
    unnest(@model::text[]),
    unnest(@region::text[]),
    unnest(@from_state::text[]),
    unnest(@to_state::text[]),
    unnest(@reason::text[]),
    unnest(@counts::jsonb[]),
    nullif(unnest(@open_for_ms::bigint[]), -1),
    unnest(@actor::text[]),
    nullif(unnest(@note::text[]), '')
ON CONFLICT DO NOTHING;

-- name: ListCircuitEvents :many
-- Newest first, whichever node and whichever life of it wrote them; a page
-- begins behind the event that is named. The bound on at alone is what finds
-- the partitions.
SELECT * FROM circuit_events
WHERE provider = @provider AND model = @model AND region = @region
  AND at <= @before_at
  AND (at, node, boot_id, seq) < (@before_at, @before_node::text, @before_boot::uuid, @before_seq::bigint)
ORDER BY at DESC, node DESC, boot_id DESC, seq DESC
LIMIT @row_limit;

-- name: FindCircuitEventTime :one
SELECT at FROM circuit_events
WHERE node = @node AND boot_id = @boot_id AND seq = @seq
  AND provider = @provider AND model = @model AND region = @region;

-- name: CountCircuitEvents :one
SELECT count(*) FROM circuit_events WHERE at >= @from_at AND at < @to_at;

-- name: DeleteCircuitEvents :execrows
DELETE FROM circuit_events old
WHERE old.at < @older_than AND (old.node, old.boot_id, old.seq, old.at) IN (
    SELECT node, boot_id, seq, at FROM circuit_events e WHERE e.at < @older_than LIMIT @row_limit
);
