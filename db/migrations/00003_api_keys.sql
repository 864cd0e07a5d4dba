-- +goose Up

-- The keys of apps. Only a hash of a secret is kept. A key that is revoked keeps
-- its row, so that telemetry still says whose calls they were.
CREATE TABLE api_keys (
    id             uuid        PRIMARY KEY,
    name           text        NOT NULL,
    owner          text        NOT NULL,
    prefix         text        NOT NULL UNIQUE,
    secret_hash    bytea       NOT NULL,
    configurations text[],     -- what it may name in "model"; NULL = everything
    limits         jsonb       NOT NULL,
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz,
    revoked_at     timestamptz
);

CREATE UNIQUE INDEX api_keys_live_name_idx ON api_keys (name) WHERE revoked_at IS NULL;

-- Every gateway asks several times a second which keys were revoked lately.
CREATE INDEX api_keys_revoked_at_idx ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;

-- +goose Down
DROP TABLE api_keys;
