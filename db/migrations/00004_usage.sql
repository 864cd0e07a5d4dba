-- +goose Up

-- What calls used, summed by the day on which they were received, in the time
-- zone of budgets. It outlives the rows of telemetry. Each gateway writes rows of
-- its own, so that none waits for another. '' is no key, and no configuration: a
-- direct target.
CREATE TABLE usage_daily (
    day                date    NOT NULL,
    writer             text    NOT NULL,
    api_key_id         text    NOT NULL,
    configuration      text    NOT NULL,
    provider           text    NOT NULL,
    model              text    NOT NULL,
    region             text    NOT NULL,
    requests           bigint  NOT NULL, -- calls, at the target that was asked last
    attempts           bigint  NOT NULL, -- that reached the target
    failures           bigint  NOT NULL, -- of those
    input_tokens       bigint  NOT NULL,
    cached_tokens      bigint  NOT NULL,
    cache_write_tokens bigint  NOT NULL,
    output_tokens      bigint  NOT NULL,
    reasoning_tokens   bigint  NOT NULL,
    cost_usd           numeric NOT NULL,
    unpriced           bigint  NOT NULL, -- attempts with tokens that have no price
    estimated          bigint  NOT NULL, -- attempts whose tokens are an estimate
    PRIMARY KEY (day, writer, api_key_id, configuration, provider, model, region)
);

CREATE INDEX usage_daily_api_key_id_idx ON usage_daily (api_key_id, day);
CREATE INDEX usage_daily_configuration_idx ON usage_daily (configuration, day);

-- The calls that count in usage_daily and have no row in telemetry_runs, because
-- telemetry is off. They are kept until no writer can write them again.
CREATE TABLE usage_runs (
    run_id     uuid        PRIMARY KEY,
    writer     uuid        NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE usage_runs;
DROP TABLE usage_daily;
