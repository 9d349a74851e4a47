"""The journal's tables in PostgreSQL, and the statements that must be right to the letter."""

from typing import Final

SCHEMA_VERSION: Final = 1

TABLES: Final = """
CREATE TABLE xce_schema (version INTEGER NOT NULL);
CREATE TABLE xce_lead (
    only_row BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch BIGINT NOT NULL, holder TEXT NOT NULL,
    until TIMESTAMPTZ NOT NULL, renewals BIGINT NOT NULL);
CREATE TABLE xce_batches (
    last BIGINT PRIMARY KEY, first BIGINT NOT NULL UNIQUE, epoch BIGINT NOT NULL,
    crc_before BIGINT NOT NULL, crc BIGINT NOT NULL, content BYTEA NOT NULL);
CREATE TABLE xce_archive (
    last BIGINT PRIMARY KEY, first BIGINT NOT NULL, epoch BIGINT NOT NULL,
    crc_before BIGINT NOT NULL, crc BIGINT NOT NULL, content BYTEA NOT NULL);
CREATE TABLE xce_blobs (hash TEXT PRIMARY KEY, content BYTEA NOT NULL);
CREATE TABLE xce_snapshots (seq BIGINT PRIMARY KEY, manifest BYTEA NOT NULL);
CREATE TABLE xce_snapshot_parts (
    seq BIGINT NOT NULL, number INTEGER NOT NULL, content BYTEA NOT NULL,
    PRIMARY KEY (seq, number));
INSERT INTO xce_lead (epoch, holder, until, renewals) VALUES (0, '', 'epoch', 0);
"""
CREATION_LOCK: Final = "SELECT pg_advisory_xact_lock(74826001)"
HAS_TABLES: Final = "SELECT to_regclass('xce_schema') IS NOT NULL"

# Without a lock, so that a standby which looks again and again disturbs nobody.
WHO_LEADS: Final = (
    "SELECT epoch, holder, until > clock_timestamp() AS holds,"
    " extract(epoch FROM until - clock_timestamp())::float8 AS left_s FROM xce_lead"
)
# FOR UPDATE waits for appends that are under way, and makes later ones wait: they hold the row
# with FOR KEY SHARE. What is read after this commit is all that the reign before has written.
TAKE_LOCK: Final = f"{WHO_LEADS} FOR UPDATE"
TAKE: Final = (
    "UPDATE xce_lead SET epoch = epoch + 1, holder = $1, renewals = renewals + 1,"
    " until = clock_timestamp() + make_interval(secs => $2) RETURNING epoch"
)
# Changes no key, so that it does not wait for appends, nor they for it. What was given up it does
# not take back: it may be on its way when that is done.
RENEW: Final = (
    "UPDATE xce_lead SET renewals = renewals + 1,"
    " until = clock_timestamp() + make_interval(secs => $2)"
    " WHERE epoch = $1 AND until > 'epoch' RETURNING epoch"
)
GIVE_UP: Final = "UPDATE xce_lead SET until = 'epoch' WHERE epoch = $1"

# Check of the reign, check of the order, blobs and batches: one statement, so one transaction.
# Where another reign has begun meanwhile, the row is looked at again when its lock is got, does
# not match any more, and nothing is written. What is stored under a hash is the same, unless it was
# damaged: then this mends it.
APPEND: Final = """
WITH led AS (SELECT epoch FROM xce_lead WHERE epoch = $1 FOR KEY SHARE),
stands AS (
    SELECT epoch FROM led WHERE $2::bigint = 1 + coalesce((SELECT max(last) FROM xce_batches), 0)),
named AS (
    INSERT INTO xce_blobs (hash, content)
    SELECT DISTINCT ON (b.hash) b.hash, b.content
    FROM stands, unnest($3::text[], $4::bytea[]) AS b (hash, content)
    ON CONFLICT (hash) DO UPDATE SET content = excluded.content
        WHERE xce_blobs.content IS DISTINCT FROM excluded.content)
INSERT INTO xce_batches (last, first, epoch, crc_before, crc, content)
SELECT r.last, r.first, stands.epoch, r.crc_before, r.crc, r.content
FROM stands, unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[])
    AS r (last, first, crc_before, crc, content)
"""
ROW: Final = "SELECT first, last, crc_before, crc, content, epoch"
TRIM: Final = """
WITH gone AS (
    DELETE FROM xce_batches WHERE last IN (
        SELECT last FROM xce_batches WHERE last < least($1, (SELECT max(last) FROM xce_batches))
        ORDER BY last LIMIT $2)
    RETURNING last, first, epoch, crc_before, crc, content)
INSERT INTO xce_archive (last, first, epoch, crc_before, crc, content)
SELECT last, first, epoch, crc_before, crc, content FROM gone ON CONFLICT DO NOTHING
"""

IS_EMPTY: Final = (
    "SELECT NOT EXISTS (SELECT FROM xce_batches) AND NOT EXISTS (SELECT FROM xce_archive)"
    " AND NOT EXISTS (SELECT FROM xce_snapshots)"
)
_FILL: Final = """
INSERT INTO {table} (last, first, epoch, crc_before, crc, content)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
    $6::bytea[])
"""
FILL: Final = _FILL.format(table="xce_batches")
FILL_ARCHIVE: Final = _FILL.format(table="xce_archive")
