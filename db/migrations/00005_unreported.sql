-- +goose Up

-- What limits have counted of calls beyond what any provider reported. It is kept
-- apart, so that no report has a cost that nobody was told. Columns with a constant
-- default rewrite no rows; gateways that do not know them yet go on writing.
SET LOCAL lock_timeout = '5s';
ALTER TABLE usage_daily
    ADD COLUMN unreported_tokens bigint  NOT NULL DEFAULT 0,
    ADD COLUMN unreported_usd    numeric NOT NULL DEFAULT 0;

-- +goose Down
SET LOCAL lock_timeout = '5s';
ALTER TABLE usage_daily
    DROP COLUMN unreported_tokens,
    DROP COLUMN unreported_usd;
