-- The traces that commands came with, so that events can be followed from their request downstream.

-- Whoever is not a superuser takes the owner's part for as long as the upgrade lasts.
DO $owner$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        GRANT puntobanco_owner TO CURRENT_USER;
    END IF;
END
$owner$;

SET LOCAL ROLE puntobanco_owner;

-- A row for each command that came with a trace and recorded anything: the positions of its
-- events, and the trace. The feed tells it, so it stays as it is like the events themselves.
CREATE TABLE ledger.traces (
    first_position bigint PRIMARY KEY,
    last_position bigint NOT NULL CHECK (last_position >= first_position),
    traceparent text COLLATE "C" NOT NULL
        CHECK (traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$')
);

CREATE TRIGGER refuse_update BEFORE UPDATE ON ledger.traces
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER refuse_delete BEFORE DELETE ON ledger.traces
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON ledger.traces
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse_change();
ALTER TABLE ledger.traces ENABLE ALWAYS TRIGGER refuse_update;
ALTER TABLE ledger.traces ENABLE ALWAYS TRIGGER refuse_delete;
ALTER TABLE ledger.traces ENABLE ALWAYS TRIGGER refuse_truncate;

GRANT SELECT ON ledger.traces TO puntobanco_ledger, puntobanco_reader;
GRANT INSERT ON ledger.traces TO puntobanco_ledger;

-- As before, with the traces. Their arguments have defaults for the sake of programs of the
-- version before, which may be at work during the upgrade.
DROP FUNCTION ledger.append;
CREATE FUNCTION ledger.append(
    expected_head bigint,
    streams text[], versions bigint[], topics text[], states bytea[],
    clients text[], keys text[], fields text[], answers text[], positions bigint[],
    kept_streams text[], kept_versions bigint[], kept_logic integer, kept_states bytea[],
    first_positions bigint[] DEFAULT NULL, last_positions bigint[] DEFAULT NULL,
    traceparents text[] DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql AS $append$
DECLARE
    stored bigint;
BEGIN
    PERFORM FROM ledger.head FOR UPDATE;
    IF expected_head <> (SELECT coalesce(max(notification_id), 0) FROM ledger.stored_events) THEN
        RETURN false;
    END IF;
    IF EXISTS (
        SELECT FROM unnest(clients, keys) AS wanted (client, key)
          JOIN ledger.refusals USING (client, key)
         WHERE recorded_at > now() - INTERVAL '30 days'
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO ledger.stored_events
           (originator_id, originator_version, topic, state, notification_id)
    SELECT stream, version, topic, state, expected_head + place
      FROM unnest(streams, versions, topics, states)
           WITH ORDINALITY AS event (stream, version, topic, state, place);
    GET DIAGNOSTICS stored = ROW_COUNT;
    IF stored <> cardinality(streams) THEN
        RAISE EXCEPTION '% of % events were stored', stored, cardinality(streams)
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    INSERT INTO ledger.answers (client, key, fields, answer, position)
    SELECT client, key, field_hashes::jsonb, answer::json, position
      FROM unnest(clients, keys, fields, answers, positions)
           AS remembered (client, key, field_hashes, answer, position);
    IF cardinality(kept_streams) > 0 THEN
        INSERT INTO ledger.states AS kept (stream, version, logic, state)
        SELECT stream, version, kept_logic, state
          FROM unnest(kept_streams, kept_versions, kept_states) AS latest (stream, version, state)
            ON CONFLICT (stream) DO UPDATE
           SET version = excluded.version, logic = excluded.logic, state = excluded.state;
    END IF;
    IF cardinality(traceparents) > 0 THEN
        INSERT INTO ledger.traces (first_position, last_position, traceparent)
        SELECT first_position, last_position, traceparent
          FROM unnest(first_positions, last_positions, traceparents)
               AS trace (first_position, last_position, traceparent);
    END IF;
    NOTIFY stored_events;
    RETURN true;
END
$append$;
REVOKE ALL ON FUNCTION ledger.append FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.append TO puntobanco_ledger;

RESET ROLE;
