-- +goose Up

-- One row per client call. Never a prompt, an answer, a header, a credential
-- or an upstream's words. NULL = not measured, 0 = measured zero.
-- Day partitions are made ahead at run time.
CREATE TABLE telemetry_runs (
    run_id             uuid          NOT NULL,
    started_at         timestamptz   NOT NULL,
    finished_at        timestamptz   NOT NULL,
    correlation_id     text          NOT NULL,
    trace_id           text,
    api_key_id         text,
    operation          text          NOT NULL,
    dialect            text          NOT NULL,
    configuration      text,
    requested_model    text          NOT NULL,
    served_provider    text,
    served_model       text,
    served_region      text,
    outcome            text          NOT NULL,
    failure_class      text,
    failure_reason     text,
    http_status        integer       NOT NULL,
    latency_ms         bigint        NOT NULL,
    overhead_us        bigint,
    ttft_ms            bigint,
    streamed           boolean       NOT NULL,
    cache_hit          boolean       NOT NULL DEFAULT false,
    idempotent_replay  boolean       NOT NULL DEFAULT false,
    degraded           text,
    attempts           integer       NOT NULL,
    fallbacks          integer       NOT NULL,
    input_tokens       bigint,
    cached_tokens      bigint,
    cache_write_tokens bigint,
    output_tokens      bigint,
    reasoning_tokens   bigint,
    usage_estimated    boolean       NOT NULL DEFAULT false,
    usage_anomaly      boolean       NOT NULL DEFAULT false,
    cost_usd           numeric(20,10),
    unpriced           boolean       NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, started_at)
) PARTITION BY RANGE (started_at);

CREATE INDEX telemetry_runs_started_at_idx ON telemetry_runs (started_at DESC, run_id DESC);
CREATE INDEX telemetry_runs_correlation_id_idx ON telemetry_runs (correlation_id, started_at);

-- One row per permit or refusal; in-place retries are counted, not rows.
CREATE TABLE telemetry_attempts (
    run_id             uuid          NOT NULL,
    seq                integer       NOT NULL,
    started_at         timestamptz   NOT NULL,
    finished_at        timestamptz   NOT NULL,
    provider           text          NOT NULL,
    model              text          NOT NULL,
    region             text          NOT NULL,
    outcome            text          NOT NULL,
    failure_class      text,
    failure_reason     text,
    upstream_status    integer,
    latency_ms         bigint,
    ttft_ms            bigint,
    slow               boolean       NOT NULL DEFAULT false,
    retries            integer       NOT NULL DEFAULT 0,
    circuit_state      text,
    circuit_generation bigint,
    probe              text,
    input_tokens       bigint,
    cached_tokens      bigint,
    cache_write_tokens bigint,
    output_tokens      bigint,
    reasoning_tokens   bigint,
    usage_estimated    boolean       NOT NULL DEFAULT false,
    usage_anomaly      boolean       NOT NULL DEFAULT false,
    cost_usd           numeric(20,10),
    unpriced           boolean       NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, seq, started_at)
) PARTITION BY RANGE (started_at);

CREATE INDEX telemetry_attempts_finished_at_idx ON telemetry_attempts (finished_at);

-- Every transition of a circuit and every operator action, written once, by
-- the node whose step made it.
CREATE TABLE circuit_events (
    node        text        NOT NULL,
    boot_id     uuid        NOT NULL,
    seq         bigint      NOT NULL,
    at          timestamptz NOT NULL,
    provider    text        NOT NULL,
    model       text        NOT NULL,
    region      text        NOT NULL,
    from_state  text        NOT NULL,
    to_state    text        NOT NULL,
    reason      text        NOT NULL,
    counts      jsonb       NOT NULL,
    open_for_ms bigint,
    actor       text        NOT NULL,
    PRIMARY KEY (node, boot_id, seq, at)
) PARTITION BY RANGE (at);

CREATE INDEX circuit_events_key_idx ON circuit_events (provider, model, region, at DESC);

-- +goose Down
DROP TABLE circuit_events;
DROP TABLE telemetry_attempts;
DROP TABLE telemetry_runs;
