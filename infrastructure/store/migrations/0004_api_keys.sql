-- The keys of the service, and the roles that may only read.

-- Roles belong to the whole cluster. Another database of it may have made them, even just now.
DO $roles$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY ARRAY[
        'CREATE ROLE puntobanco_auditor NOLOGIN',
        'CREATE ROLE puntobanco_reporting NOLOGIN',
        'GRANT puntobanco_reader TO puntobanco_auditor',
        'GRANT puntobanco_reader TO puntobanco_reporting'
    ] LOOP
        CONTINUE WHEN statement LIKE 'CREATE%' AND EXISTS (
            SELECT FROM pg_catalog.pg_roles WHERE rolname = split_part(statement, ' ', 3)
        );
        CONTINUE WHEN statement LIKE 'GRANT%' AND pg_has_role(
            split_part(statement, ' ', 4)::name, 'puntobanco_reader', 'MEMBER'
        );
        BEGIN
            EXECUTE statement;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END LOOP;

    -- Whoever is not a superuser takes the owner's part for as long as the upgrade lasts.
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        GRANT puntobanco_owner TO CURRENT_USER;
    END IF;
END
$roles$;

SET LOCAL ROLE puntobanco_owner;

-- A key is shown once, when it is made; what is kept tells only whether one is it.
CREATE TABLE ledger.api_keys (
    id text COLLATE "C" PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    tables text[] COLLATE "C" NOT NULL DEFAULT '{}',
    account text COLLATE "C",
    secret_hash bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz
);
GRANT SELECT, INSERT ON ledger.api_keys TO puntobanco_ledger;
-- Who may write can revoke a key, and can neither widen nor revive one.
GRANT UPDATE (revoked_at) ON ledger.api_keys TO puntobanco_ledger;

-- An auditor sees who holds keys, and what was answered and refused, beside the events.
CREATE VIEW ledger.key_holders AS
SELECT id, owner, role, tables, account, created_at, revoked_at FROM ledger.api_keys;
GRANT SELECT ON ledger.key_holders, ledger.answers, ledger.refusals TO puntobanco_auditor;

RESET ROLE;
