-- +goose Up

-- Every gateway asks several times a second which keys were minted lately.
SET LOCAL lock_timeout = '5s';
CREATE INDEX api_keys_created_at_idx ON api_keys (created_at);

-- +goose Down
SET LOCAL lock_timeout = '5s';
DROP INDEX api_keys_created_at_idx;
