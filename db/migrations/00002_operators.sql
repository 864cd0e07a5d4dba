-- +goose Up

-- Nobody waits behind this for long where the tables are in use; the migration
-- is tried again.
SET LOCAL lock_timeout = '5s';

-- Tokens of people and programs that steer the gateway. Only a hash of each
-- secret is kept. Of one name there is one that is not revoked.
CREATE TABLE operator_tokens (
    id          uuid        PRIMARY KEY,
    name        text        NOT NULL,
    role        text        NOT NULL CHECK (role IN ('viewer', 'operator')),
    prefix      text        NOT NULL UNIQUE,
    secret_hash bytea       NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    revoked_at  timestamptz
);

CREATE UNIQUE INDEX operator_tokens_live_name_idx ON operator_tokens (name) WHERE revoked_at IS NULL;

-- What a person has decided about a circuit, until a person ends it or its time
-- is up. It outlives caches and restarts.
CREATE TABLE circuit_overrides (
    key    text        PRIMARY KEY,
    state  text        NOT NULL CHECK (state IN ('forced_open', 'disabled', 'shadow')),
    reason text        NOT NULL,
    actor  text        NOT NULL,
    set_at timestamptz NOT NULL,
    until  timestamptz
);

-- Why an operator did it, in the operator's words.
ALTER TABLE circuit_events ADD COLUMN note text;

-- +goose Down
ALTER TABLE circuit_events DROP COLUMN note;
DROP TABLE circuit_overrides;
DROP TABLE operator_tokens;
