-- Health is a read model over attempts that reached a verdict in the window:
-- one row per target, and one per provider (is_provider) over its targets.
-- Latencies are those of successes; where latency_samples or ttft_samples is 0
-- the figures beside it mean nothing. The bound on started_at only spares
-- partitions that cannot hold such an attempt.

-- name: ListHealth :many
SELECT
    (grouping(a.model) = 1)::boolean AS is_provider,
    a.provider,
    coalesce(a.model, '')::text AS model,
    coalesce(a.region, '')::text AS region,
    count(*) AS samples,
    count(*) FILTER (WHERE a.outcome = 'success') AS successes,
    count(a.latency_ms) FILTER (WHERE a.outcome = 'success') AS latency_samples,
    count(a.ttft_ms) FILTER (WHERE a.outcome = 'success') AS ttft_samples,
    coalesce(avg(a.latency_ms) FILTER (WHERE a.outcome = 'success'), 0)::float8 AS latency_mean_ms,
    coalesce(percentile_cont(0.50) WITHIN GROUP (ORDER BY a.latency_ms) FILTER (WHERE a.outcome = 'success'), 0)::float8 AS latency_p50_ms,
    coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY a.latency_ms) FILTER (WHERE a.outcome = 'success'), 0)::float8 AS latency_p99_ms,
    coalesce(percentile_cont(0.50) WITHIN GROUP (ORDER BY a.ttft_ms) FILTER (WHERE a.outcome = 'success'), 0)::float8 AS ttft_p50_ms
FROM telemetry_attempts a
WHERE a.finished_at > @since::timestamptz
  AND a.started_at > @started_after::timestamptz
  AND a.outcome IN ('success', 'failure')
  AND (a.probe IS NULL OR a.probe = 'probe')
  AND a.provider <> ''
GROUP BY GROUPING SETS ((a.provider, a.model, a.region), (a.provider))
ORDER BY a.provider, is_provider DESC, model, region;
