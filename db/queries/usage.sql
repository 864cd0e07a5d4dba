-- With telemetry off usage is written alone. The run's id stands in for its row:
-- a run that is there already counts no more. Rows are touched in one order, so
-- that writers that meet wait and never block each other for good.

-- name: InsertUsage :exec
WITH inserted AS (
    INSERT INTO usage_runs (run_id, writer)
    SELECT DISTINCT unnest(@run_id::uuid[]) AS run_id, @boot_id::uuid
    ORDER BY run_id
    ON CONFLICT DO NOTHING
    RETURNING run_id
), given AS (
    SELECT
        unnest(@run_id::uuid[]) AS run_id,
        unnest(@day::date[]) AS day,
        unnest(@api_key_id::text[]) AS api_key_id,
        unnest(@configuration::text[]) AS configuration,
        unnest(@provider::text[]) AS provider,
        unnest(@model::text[]) AS model,
        unnest(@region::text[]) AS region,
        unnest(@requests::integer[]) AS requests,
        unnest(@failures::integer[]) AS failures,
        unnest(@input_tokens::bigint[]) AS input_tokens,
        unnest(@cached_tokens::bigint[]) AS cached_tokens,
        unnest(@cache_write_tokens::bigint[]) AS cache_write_tokens,
        unnest(@output_tokens::bigint[]) AS output_tokens,
        unnest(@reasoning_tokens::bigint[]) AS reasoning_tokens,
        unnest(@cost_usd::numeric[]) AS cost_usd,
        unnest(@unpriced::integer[]) AS unpriced,
        unnest(@estimated::integer[]) AS estimated,
        unnest(@unreported_tokens::bigint[]) AS unreported_tokens,
        unnest(@unreported_usd::numeric[]) AS unreported_usd
)
INSERT INTO usage_daily AS u (
    day, writer, api_key_id, configuration, provider, model, region,
    requests, attempts, failures,
    input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
    cost_usd, unpriced, estimated, unreported_tokens, unreported_usd
)
SELECT
    g.day, @writer::text, g.api_key_id, g.configuration, g.provider, g.model, g.region,
    sum(g.requests), count(*), sum(g.failures),
    sum(g.input_tokens), sum(g.cached_tokens), sum(g.cache_write_tokens), sum(g.output_tokens), sum(g.reasoning_tokens),
    sum(g.cost_usd), sum(g.unpriced), sum(g.estimated),
    sum(g.unreported_tokens), sum(g.unreported_usd)
FROM given g JOIN inserted USING (run_id)
GROUP BY g.day, g.api_key_id, g.configuration, g.provider, g.model, g.region
ORDER BY g.day, g.api_key_id, g.configuration, g.provider, g.model, g.region
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

-- A writer's own batches are told, all but the one in hand, so it may forget
-- them soon; those of others may be brought again from a spool.

-- name: DeleteUsageRuns :execrows
DELETE FROM usage_runs
WHERE written_at < now() - interval '1 hour' AND (writer = @boot_id OR written_at < now() - interval '32 days');

-- What counts against the limits of a key or a configuration in a month, and on
-- one of its days: what was reported, and what limits have counted beyond it. It
-- also tells which of the given runs are in it, so it is one statement, of one
-- snapshot.

-- name: FindSpent :one
SELECT
    coalesce(sum(requests) FILTER (WHERE day = @on_day::date), 0)::numeric AS day_requests,
    coalesce(sum(input_tokens + output_tokens + unreported_tokens) FILTER (WHERE day = @on_day), 0)::numeric AS day_tokens,
    coalesce(sum(cost_usd + unreported_usd) FILTER (WHERE day = @on_day), 0)::numeric AS day_cost,
    coalesce(sum(requests), 0)::numeric AS month_requests,
    coalesce(sum(input_tokens + output_tokens + unreported_tokens), 0)::numeric AS month_tokens,
    coalesce(sum(cost_usd + unreported_usd), 0)::numeric AS month_cost,
    ARRAY(
        SELECT r.run_id FROM telemetry_runs r WHERE r.run_id = ANY(@runs::uuid[])
        UNION
        SELECT c.run_id FROM usage_runs c WHERE c.run_id = ANY(@runs)
    )::uuid[] AS written
FROM (
    SELECT k.* FROM usage_daily k
    WHERE @api_key_id::text <> '' AND k.api_key_id = @api_key_id AND k.day BETWEEN @from_day::date AND @to_day::date
    UNION ALL
    SELECT c.* FROM usage_daily c
    WHERE @configuration::text <> '' AND c.configuration = @configuration AND c.day BETWEEN @from_day AND @to_day
) scoped;

-- name: CountUsage :one
SELECT count(*) FROM usage_daily WHERE day < @before::date;

-- name: DeleteUsage :execrows
DELETE FROM usage_daily old
WHERE old.day < @before::date AND (old.day, old.writer, old.api_key_id, old.configuration, old.provider, old.model, old.region) IN (
    SELECT day, writer, api_key_id, configuration, provider, model, region FROM usage_daily u WHERE u.day < @before LIMIT @row_limit
);

-- Usage by what is asked for; what is not asked for is summed over. A key that is
-- not known by a name, any more or at all, has none.

-- name: SumUsage :many
WITH sums AS (
    SELECT
        CASE WHEN @by_day::boolean THEN u.day ELSE '0001-01-01' END AS day,
        CASE WHEN @by_key::boolean THEN api_key_id ELSE '' END AS api_key_id,
        CASE WHEN @by_configuration::boolean THEN configuration ELSE '' END AS configuration,
        CASE WHEN @by_provider::boolean THEN provider ELSE '' END AS provider,
        CASE WHEN @by_model::boolean THEN model ELSE '' END AS model,
        sum(requests) AS requests, sum(attempts) AS attempts, sum(failures) AS failures,
        sum(input_tokens) AS input_tokens, sum(cached_tokens) AS cached_tokens, sum(cache_write_tokens) AS cache_write_tokens,
        sum(output_tokens) AS output_tokens, sum(reasoning_tokens) AS reasoning_tokens,
        sum(cost_usd) AS cost_usd, sum(unpriced) AS unpriced, sum(estimated) AS estimated,
        sum(unreported_tokens) AS unreported_tokens, sum(unreported_usd) AS unreported_usd
    FROM usage_daily u
    WHERE u.day BETWEEN @from_day::date AND @to_day::date
    GROUP BY 1, 2, 3, 4, 5
)
SELECT
    s.day::date AS day, s.api_key_id::text AS api_key_id, coalesce(k.name, '')::text AS api_key_name,
    s.configuration::text AS configuration, s.provider::text AS provider, s.model::text AS model,
    s.requests::bigint AS requests, s.attempts::bigint AS attempts, s.failures::bigint AS failures,
    s.input_tokens::bigint AS input_tokens, s.cached_tokens::bigint AS cached_tokens, s.cache_write_tokens::bigint AS cache_write_tokens,
    s.output_tokens::bigint AS output_tokens, s.reasoning_tokens::bigint AS reasoning_tokens,
    s.cost_usd::numeric AS cost_usd, s.unpriced::bigint AS unpriced, s.estimated::bigint AS estimated,
    s.unreported_tokens::bigint AS unreported_tokens, s.unreported_usd::numeric AS unreported_usd
FROM sums s LEFT JOIN api_keys k ON k.id::text = s.api_key_id
ORDER BY s.day, s.api_key_id, s.configuration, s.provider, s.model
LIMIT @row_limit;
