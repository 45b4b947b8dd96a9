-- The ledger: events, the answers that go with them, and who may do what.
--
-- Run by a superuser, or by a role that may create roles and schemas and can become
-- puntobanco_owner and puntobanco_ledger (which it may grant itself when it makes them).

-- Roles belong to the whole cluster. Another database of it may have made them, even just now.
DO $roles$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY ARRAY[
        'CREATE ROLE puntobanco_owner NOLOGIN',
        -- No password: peer or trust authentication, or a login role that is a member of it.
        'CREATE ROLE puntobanco_ledger LOGIN',
        'CREATE ROLE puntobanco_reader NOLOGIN'
    ] LOOP
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_catalog.pg_roles WHERE rolname = split_part(statement, ' ', 3)
        );
        BEGIN
            EXECUTE statement;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END LOOP;

    -- Whoever is not a superuser must be a member of the roles to hand the schemas over to them.
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        BEGIN
            GRANT puntobanco_owner, puntobanco_ledger TO CURRENT_USER;
        EXCEPTION WHEN insufficient_privilege THEN
            NULL;  -- Somebody else may have granted it; if not, the next statement says so.
        END;
    END IF;
END
$roles$;

CREATE SCHEMA ledger AUTHORIZATION puntobanco_owner;
CREATE SCHEMA projection AUTHORIZATION puntobanco_ledger;
CREATE SCHEMA projection_rebuild AUTHORIZATION puntobanco_ledger;

-- For people at a prompt; the program spells its schemas out. The owner of the database may do it.
DO $search_path$
BEGIN
    EXECUTE format(
        'ALTER DATABASE %I SET search_path = "$user", public, ledger, projection',
        current_database()
    );
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END
$search_path$;

-- What the history is made of belongs to a role that nobody logs in as.
SET LOCAL ROLE puntobanco_owner;

CREATE TABLE ledger.schema_version (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE ledger.stored_events (
    originator_id text COLLATE "C" NOT NULL,
    originator_version bigint NOT NULL CHECK (originator_version > 0),
    topic text COLLATE "C" NOT NULL,
    state bytea NOT NULL,
    notification_id bigint NOT NULL CHECK (notification_id > 0),
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (originator_id, originator_version)
);
CREATE UNIQUE INDEX stored_events_notification_id_idx ON ledger.stored_events (notification_id);

-- The row that a writer locks until it commits, so that positions are given out in the order of
-- the commits. Unlike a lock of the table it lets VACUUM and ANALYZE pass, and unlike an advisory
-- lock nobody can take it who may not write.
CREATE TABLE ledger.head (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton)
);
INSERT INTO ledger.head DEFAULT VALUES;

-- The answer to each accepted command, for ever; stored with the events that it answers for.
CREATE TABLE ledger.answers (
    client text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fields jsonb NOT NULL,
    answer json NOT NULL,  -- json and not jsonb, which would not give the same bytes back
    position bigint NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (client, key)
);

-- The answer to each refused command, for a while.
CREATE TABLE ledger.refusals (
    client text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fields jsonb NOT NULL,
    answer json NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (client, key)
);

-- The seeds of shuffled shoes that are still open.
CREATE TABLE ledger.seeds (
    shoe_id text COLLATE "C" PRIMARY KEY,
    seed bytea NOT NULL
);
-- Not even a role that may read all data sees one.
ALTER TABLE ledger.seeds ENABLE ROW LEVEL SECURITY;
CREATE POLICY writer_alone ON ledger.seeds TO puntobanco_ledger USING (true) WITH CHECK (true);

CREATE VIEW ledger.events AS
SELECT
    stored.notification_id AS position,
    stored.originator_id AS stream,
    stored.originator_version AS version,
    stored.topic,
    (document.state ->> 'at')::timestamptz AS at,
    document.state ->> 'actor' AS actor,
    document.state ->> 'key' AS key,
    stored.recorded_at,
    document.state
FROM ledger.stored_events AS stored
CROSS JOIN LATERAL (SELECT convert_from(stored.state, 'UTF8')::jsonb AS state) AS document;

-- The guard. It is compared with this text at start-up and by the audit.
CREATE FUNCTION ledger.refuse_change() RETURNS trigger
LANGUAGE plpgsql AS $guard$
BEGIN
    RAISE EXCEPTION '% of %.% is refused: what is recorded stays as it is',
        TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation',
              HINT = 'Record a correction instead.';
END
$guard$;
REVOKE ALL ON FUNCTION ledger.refuse_change() FROM PUBLIC;

CREATE TRIGGER refuse_update BEFORE UPDATE ON ledger.stored_events
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER refuse_delete BEFORE DELETE ON ledger.stored_events
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON ledger.stored_events
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER refuse_update BEFORE UPDATE ON ledger.answers
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER refuse_delete BEFORE DELETE ON ledger.answers
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON ledger.answers
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();

-- ALWAYS, or a session with session_replication_role = replica would pass by them.
ALTER TABLE ledger.stored_events ENABLE ALWAYS TRIGGER refuse_update;
ALTER TABLE ledger.stored_events ENABLE ALWAYS TRIGGER refuse_delete;
ALTER TABLE ledger.stored_events ENABLE ALWAYS TRIGGER refuse_truncate;
ALTER TABLE ledger.answers ENABLE ALWAYS TRIGGER refuse_update;
ALTER TABLE ledger.answers ENABLE ALWAYS TRIGGER refuse_delete;
ALTER TABLE ledger.answers ENABLE ALWAYS TRIGGER refuse_truncate;

GRANT USAGE ON SCHEMA ledger TO puntobanco_ledger, puntobanco_reader;
GRANT SELECT ON ledger.schema_version, ledger.events, ledger.stored_events
    TO puntobanco_ledger, puntobanco_reader;
GRANT INSERT ON ledger.stored_events TO puntobanco_ledger;
GRANT SELECT, INSERT ON ledger.answers TO puntobanco_ledger;
-- SELECT FOR UPDATE asks for both.
GRANT SELECT, UPDATE ON ledger.head TO puntobanco_ledger;
GRANT SELECT, INSERT, UPDATE, DELETE ON ledger.refusals TO puntobanco_ledger;
GRANT SELECT, INSERT, DELETE ON ledger.seeds TO puntobanco_ledger;

-- The read models, whose tables the program makes and remakes.
SET LOCAL ROLE puntobanco_ledger;

GRANT USAGE ON SCHEMA projection, projection_rebuild TO puntobanco_reader;
-- A table keeps its rights when it is moved from one of the two schemas to the other.
ALTER DEFAULT PRIVILEGES IN SCHEMA projection GRANT SELECT ON TABLES TO puntobanco_reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA projection_rebuild GRANT SELECT ON TABLES TO puntobanco_reader;

RESET ROLE;
