-- One statement writes a batch. A run that was written before, by a batch whose
-- answer was lost, is left as it is. Batches that share runs touch them in one
-- order, and so never block each other for good. The arrays have no NULL elements,
-- so '' and -1 stand for "not measured" on the way in.

-- name: InsertRuns :execrows
INSERT INTO telemetry_runs (
    run_id, started_at, finished_at, correlation_id, trace_id, api_key_id,
    operation, dialect, configuration, requested_model,
    served_provider, served_model, served_region,
    outcome, failure_class, failure_reason, http_status,
    latency_ms, overhead_us, ttft_ms, streamed, cache_hit, idempotent_replay, degraded, attempts, fallbacks,
    input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
    usage_estimated, usage_anomaly, cost_usd, unpriced
)
SELECT
    unnest(@run_id::uuid[]),
    unnest(@started_at::timestamptz[]),
    unnest(@finished_at::timestamptz[]),
    unnest(@correlation_id::text[]),
    nullif(unnest(@trace_id::text[]), ''),
    nullif(unnest(@api_key_id::text[]), ''),
    unnest(@operation::text[]),
    unnest(@dialect::text[]),
    nullif(unnest(@configuration::text[]), ''),
    unnest(@requested_model::text[]),
    nullif(unnest(@served_provider::text[]), ''),
    nullif(unnest(@served_model::text[]), ''),
    nullif(unnest(@served_region::text[]), ''),
    unnest(@outcome::text[]),
    nullif(unnest(@failure_class::text[]), ''),
    nullif(unnest(@failure_reason::text[]), ''),
    unnest(@http_status::integer[]),
    unnest(@latency_ms::bigint[]),
    unnest(@overhead_us::bigint[]),
    nullif(unnest(@ttft_ms::bigint[]), -1),
    unnest(@streamed::boolean[]),
    unnest(@cache_hit::boolean[]),
    unnest(@idempotent_replay::boolean[]),
    nullif(unnest(@degraded::text[]), ''),
    unnest(@attempts::integer[]),
    unnest(@fallbacks::integer[]),
    nullif(unnest(@input_tokens::bigint[]), -1),
    nullif(unnest(@cached_tokens::bigint[]), -1),
    nullif(unnest(@cache_write_tokens::bigint[]), -1),
    nullif(unnest(@output_tokens::bigint[]), -1),
    nullif(unnest(@reasoning_tokens::bigint[]), -1),
    unnest(@usage_estimated::boolean[]),
    unnest(@usage_anomaly::boolean[]),
    nullif(unnest(@cost_usd::numeric[]), -1),
    unnest(@unpriced::boolean[])
ORDER BY 1
ON CONFLICT DO NOTHING;

-- Newest first, after a cursor; '' matches everything. A provider matches when
-- it was asked or refused at all, not only when it answered. What the gateway
-- asks on its own account is listed only where it is asked for. A key is meant by
-- its id or by its name, which keys that are revoked had before.

-- name: ListRuns :many
SELECT * FROM telemetry_runs r
WHERE r.started_at >= @from_at AND r.started_at < @to_at
  AND (r.started_at, r.run_id) < (@after_at::timestamptz, @after_id::uuid)
  AND (r.operation = @operation::text OR @operation = '' AND r.operation NOT IN ('canary', 'health_check'))
  AND (@outcome::text = '' OR r.outcome = @outcome)
  AND (@failure_class::text = '' OR r.failure_class = @failure_class)
  AND (@configuration::text = '' OR r.configuration = @configuration)
  AND (@api_key::text = '' OR r.api_key_id = @api_key OR r.api_key_id = ANY (ARRAY(SELECT k.id::text FROM api_keys k WHERE k.name = @api_key)))
  AND (@provider::text = '' OR EXISTS (
        SELECT FROM telemetry_attempts a
        WHERE a.run_id = r.run_id AND a.provider = @provider
          AND a.started_at BETWEEN r.started_at - interval '1 hour' AND r.finished_at + interval '1 hour'))
ORDER BY r.started_at DESC, r.run_id DESC
LIMIT @row_limit;

-- The calls of one correlation id in the order in which they came.

-- name: ListCorrelatedRuns :many
SELECT * FROM telemetry_runs r
WHERE r.correlation_id = @correlation_id
  AND r.started_at >= @from_at AND r.started_at < @to_at
  AND (r.started_at, r.run_id) > (@after_at::timestamptz, @after_id::uuid)
  AND (r.operation = @operation::text OR @operation = '' AND r.operation NOT IN ('canary', 'health_check'))
  AND (@outcome::text = '' OR r.outcome = @outcome)
  AND (@failure_class::text = '' OR r.failure_class = @failure_class)
  AND (@configuration::text = '' OR r.configuration = @configuration)
  AND (@api_key::text = '' OR r.api_key_id = @api_key OR r.api_key_id = ANY (ARRAY(SELECT k.id::text FROM api_keys k WHERE k.name = @api_key)))
  AND (@provider::text = '' OR EXISTS (
        SELECT FROM telemetry_attempts a
        WHERE a.run_id = r.run_id AND a.provider = @provider
          AND a.started_at BETWEEN r.started_at - interval '1 hour' AND r.finished_at + interval '1 hour'))
ORDER BY r.started_at, r.run_id
LIMIT @row_limit;

-- The latest calls that the gateway has made under a correlation id, newest
-- first.

-- name: ListOwnRuns :many
SELECT * FROM telemetry_runs
WHERE correlation_id = @correlation_id AND operation = @operation
ORDER BY started_at DESC
LIMIT @row_limit;

-- name: FindRun :one
SELECT * FROM telemetry_runs WHERE run_id = @run_id;

-- name: CountRuns :one
SELECT count(*) FROM telemetry_runs WHERE started_at >= @from_at AND started_at < @to_at;

-- name: DeleteRuns :execrows
DELETE FROM telemetry_runs old
WHERE old.started_at < @older_than AND (old.run_id, old.started_at) IN (
    SELECT run_id, started_at FROM telemetry_runs r WHERE r.started_at < @older_than LIMIT @row_limit
);
