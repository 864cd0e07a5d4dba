-- name: InsertAttempts :execrows
INSERT INTO telemetry_attempts (
    run_id, seq, started_at, finished_at, provider, model, region,
    outcome, failure_class, failure_reason, upstream_status,
    latency_ms, ttft_ms, slow, retries, circuit_state, circuit_generation, probe,
    input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
    usage_estimated, usage_anomaly, cost_usd, unpriced
)
SELECT
    unnest(@run_id::uuid[]),
    unnest(@seq::integer[]),
    unnest(@started_at::timestamptz[]),
    unnest(@finished_at::timestamptz[]),
    unnest(@provider::text[]),
    unnest(@model::text[]),
    unnest(@region::text[]),
    unnest(@outcome::text[]),
    nullif(unnest(@failure_class::text[]), ''),
    nullif(unnest(@failure_reason::text[]), ''),
    nullif(unnest(@upstream_status::integer[]), 0),
    nullif(unnest(@latency_ms::bigint[]), -1),
    nullif(unnest(@ttft_ms::bigint[]), -1),
    unnest(@slow::boolean[]),
    unnest(@retries::integer[]),
    nullif(unnest(@circuit_state::text[]), ''),
    nullif(unnest(@circuit_generation::bigint[]), -1),
    nullif(unnest(@probe::text[]), ''),
    nullif(unnest(@input_tokens::bigint[]), -1),
    nullif(unnest(@cached_tokens::bigint[]), -1),
    nullif(unnest(@cache_write_tokens::bigint[]), -1),
    nullif(unnest(@output_tokens::bigint[]), -1),
    nullif(unnest(@reasoning_tokens::bigint[]), -1),
    unnest(@usage_estimated::boolean[]),
    unnest(@usage_anomaly::boolean[]),
    nullif(unnest(@cost_usd::numeric[]), -1),
    unnest(@unpriced::boolean[])
ON CONFLICT DO NOTHING;

-- name: ListAttempts :many
SELECT * FROM telemetry_attempts WHERE run_id = @run_id ORDER BY seq;

-- name: CountAttempts :one
SELECT count(*) FROM telemetry_attempts WHERE started_at >= @from_at AND started_at < @to_at;

-- name: DeleteAttempts :execrows
DELETE FROM telemetry_attempts old
WHERE old.started_at < @older_than AND (old.run_id, old.seq, old.started_at) IN (
    SELECT run_id, seq, started_at FROM telemetry_attempts a WHERE a.started_at < @older_than LIMIT @row_limit
);
