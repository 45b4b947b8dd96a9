-- Appending in one round trip, and the states that long streams are read from.

-- Whoever is not a superuser takes the owner's part for as long as the upgrade lasts.
DO $owner$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        GRANT puntobanco_owner TO CURRENT_USER;
    END IF;
END
$owner$;

SET LOCAL ROLE puntobanco_owner;

-- What a long stream came to at one of its versions, so that the next command need not read
-- all of it. It can be made again from the events, and is not used where the program's logic
-- is another.
CREATE TABLE ledger.states (
    stream text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL CHECK (version > 0),
    logic integer NOT NULL,
    state bytea NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON ledger.states TO puntobanco_ledger;

-- Appends events after the head, the answers that go with them and the states that are to be
-- kept, and tells those who listen.
-- Returns false, and stores nothing, where the head is not the expected one or where one of
-- the keys was refused lately: the caller then decides again with what has come meanwhile.
-- Each statement has a snapshot of its own, so the head is read as it stands once the lock
-- is held. A version or a key that is there already is a unique violation.
CREATE FUNCTION ledger.append(
    expected_head bigint,
    streams text[], versions bigint[], topics text[], states bytea[],
    clients text[], keys text[], fields text[], answers text[], positions bigint[],
    kept_streams text[], kept_versions bigint[], kept_logic integer, kept_states bytea[]
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
    NOTIFY stored_events;
    RETURN true;
END
$append$;
REVOKE ALL ON FUNCTION ledger.append FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.append TO puntobanco_ledger;

RESET ROLE;
