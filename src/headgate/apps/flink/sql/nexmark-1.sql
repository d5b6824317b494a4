-- Nexmark 1: every bid with its price in euro.
CREATE TABLE events (
    number BIGINT,
    at_ms BIGINT,
    bid ROW<auction BIGINT, bidder BIGINT, price BIGINT>
) WITH ($source);

CREATE TABLE results (
    number BIGINT,
    at_ms BIGINT,
    auction BIGINT,
    bidder BIGINT,
    price DOUBLE
) WITH ($sink);

INSERT INTO results
SELECT number, at_ms, bid.auction, bid.bidder, ROUND(bid.price * CAST(0.908 AS DOUBLE), 2)
FROM events
WHERE bid IS NOT NULL;
