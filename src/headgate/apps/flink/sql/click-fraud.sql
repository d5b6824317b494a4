-- Three signs of clicks that are made for money, by minute: many users of one address, many addresses of one user, and
-- a user who clicks on much of what is shown.
CREATE TABLE events (
    number BIGINT,
    at_ms BIGINT,
    address STRING,
    `user` STRING,
    kind STRING,
    happened AS TO_TIMESTAMP_LTZ(at_ms, 3),
    WATERMARK FOR happened AS happened - INTERVAL '10' SECOND
) WITH ($source);

CREATE TABLE results (
    window_start_ms BIGINT,
    window_end_ms BIGINT,
    subject STRING,
    name STRING,
    others BIGINT,
    clicks BIGINT,
    displays BIGINT,
    click_through_rate DOUBLE
) WITH ($sink);

CREATE TEMPORARY FUNCTION spent AS 'headgate.Spent';

-- A record goes both ways, and half of its time is spent on each.
CREATE TEMPORARY VIEW sides AS
SELECT happened, 'address' AS subject, address AS name, `user` AS other, kind FROM events
WHERE spent(number, CAST($cost_ms AS DOUBLE) / 2) IS NOT NULL
UNION ALL
SELECT happened, 'user' AS subject, `user` AS name, address AS other, kind FROM events
WHERE spent(number, CAST($cost_ms AS DOUBLE) / 2) IS NOT NULL;

CREATE TEMPORARY VIEW signs AS
SELECT
    window_start, window_end, subject, name, COUNT(DISTINCT other) AS others,
    COUNT(*) FILTER (WHERE kind = 'click') AS clicks,
    COUNT(*) FILTER (WHERE kind = 'display') AS displays
FROM TABLE(TUMBLE(TABLE sides, DESCRIPTOR(happened), INTERVAL '60' SECOND))
GROUP BY window_start, window_end, subject, name;

INSERT INTO results
SELECT
    1000 * CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start) AS BIGINT),
    1000 * CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_end) AS BIGINT),
    subject, name, others, clicks, displays, CAST(clicks AS DOUBLE) / NULLIF(displays, 0)
FROM signs;
