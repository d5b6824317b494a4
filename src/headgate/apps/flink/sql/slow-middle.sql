-- Three steps, of which the middle one takes a chosen time for each record.
CREATE TABLE events (
    number BIGINT,
    at_ms BIGINT
) WITH ($source);

CREATE TABLE results (
    number BIGINT,
    at_ms BIGINT
) WITH ($sink);

CREATE TEMPORARY FUNCTION spent AS 'headgate.Spent';

INSERT INTO results
SELECT spent(number, CAST($cost_ms AS DOUBLE)), at_ms FROM events;
