-- One statement writes the attempts of a batch and adds to usage_daily what those
-- used that were not there yet, so that a batch that is written again counts
-- once. Of each attempt that counts there is told, in arrays of their own, what
-- its row does not say. Rows are touched in one order, so that writers that meet
-- wait and never block each other for good.

-- name: InsertAttempts :exec
WITH inserted AS (
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
    ON CONFLICT DO NOTHING
    RETURNING *
), counted AS (
    SELECT
        unnest(@counted_run_id::uuid[]) AS run_id,
        unnest(@counted_seq::integer[]) AS seq,
        unnest(@counted_day::date[]) AS day,
        unnest(@counted_api_key_id::text[]) AS api_key_id,
        unnest(@counted_configuration::text[]) AS configuration,
        unnest(@counted_requests::integer[]) AS requests,
        unnest(@counted_unreported_tokens::bigint[]) AS unreported_tokens,
        unnest(@counted_unreported_usd::numeric[]) AS unreported_usd
)
INSERT INTO usage_daily AS u (
    day, writer, api_key_id, configuration, provider, model, region,
    requests, attempts, failures,
    input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
    cost_usd, unpriced, estimated, unreported_tokens, unreported_usd
)
SELECT
    c.day, @writer::text, c.api_key_id, c.configuration, i.provider, i.model, i.region,
    sum(c.requests), count(*), count(*) FILTER (WHERE i.outcome = 'failure'),
    sum(least(coalesce(i.input_tokens, 0), @max_tokens::bigint)),
    sum(least(coalesce(i.cached_tokens, 0), @max_tokens)),
    sum(least(coalesce(i.cache_write_tokens, 0), @max_tokens)),
    sum(least(coalesce(i.output_tokens, 0), @max_tokens)),
    sum(least(coalesce(i.reasoning_tokens, 0), @max_tokens)),
    sum(coalesce(i.cost_usd, 0)),
    count(*) FILTER (WHERE i.unpriced), count(*) FILTER (WHERE i.usage_estimated),
    sum(c.unreported_tokens), sum(c.unreported_usd)
FROM counted c JOIN inserted i USING (run_id, seq)
GROUP BY c.day, c.api_key_id, c.configuration, i.provider, i.model, i.region
ORDER BY c.day, c.api_key_id, c.configuration, i.provider, i.model, i.region
ON CONFLICT (day, writer, api_key_id, configuration, provider, model, region) DO UPDATE SET
    requests = u.requests + excluded.requests,
    attempts = u.attempts + excluded.attempts,
    failures = u.failures + excluded.failures,
    input_tokens = u.input_tokens + excluded.input_tokens,
    cached_tokens = u.cached_tokens + excluded.cached_tokens,
    cache_write_tokens = u.cache_write_tokens + excluded.cache_write_tokens,
    output_tokens = u.output_tokens + excluded.output_tokens,
    reasoning_tokens = u.reasoning_tokens + excluded.reasoning_tokens,
    cost_usd = u.cost_usd + excluded.cost_usd,
    unpriced = u.unpriced + excluded.unpriced,
    estimated = u.estimated + excluded.estimated,
    unreported_tokens = u.unreported_tokens + excluded.unreported_tokens,
    unreported_usd = u.unreported_usd + excluded.unreported_usd;

-- name: ListAttempts :many
SELECT * FROM telemetry_attempts WHERE run_id = @run_id ORDER BY seq;

-- name: CountAttempts :one
SELECT count(*) FROM telemetry_attempts WHERE started_at >= @from_at AND started_at < @to_at;

-- name: DeleteAttempts :execrows
DELETE FROM telemetry_attempts old
WHERE old.started_at < @older_than AND (old.run_id, old.seq, old.started_at) IN (
    SELECT run_id, seq, started_at FROM telemetry_attempts a WHERE a.started_at < @older_than LIMIT @row_limit
);
