-- Which store this is: a position names an event only together with the store that gave it out.

-- Whoever is not a superuser takes the owner's part for as long as the upgrade lasts.
DO $owner$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        GRANT puntobanco_owner TO CURRENT_USER;
    END IF;
END
$owner$;

SET LOCAL ROLE puntobanco_owner;

-- After a restored backup or a lost replica, positions are given out a second time. Whoever
-- restores one starts a new incarnation, and what is downstream of the old one stays apart.
-- The latest row holds.
CREATE TABLE ledger.incarnations (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    incarnation uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    site text COLLATE "C" NOT NULL CHECK (site ~ '^[A-Za-z0-9._-]{1,64}$'),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO ledger.incarnations (site) VALUES ('main');

GRANT SELECT ON ledger.incarnations TO puntobanco_ledger, puntobanco_reader;
GRANT INSERT ON ledger.incarnations TO puntobanco_ledger;

RESET ROLE;
