-- Nexmark 5: the auctions with most bids in ten seconds, every five seconds; all of them where several have as many.
CREATE TABLE events (
    number BIGINT,
    at_ms BIGINT,
    bid ROW<auction BIGINT, bidder BIGINT, price BIGINT>,
    happened AS TO_TIMESTAMP_LTZ(at_ms, 3),
    WATERMARK FOR happened AS happened - INTERVAL '5' SECOND
) WITH ($source);

CREATE TABLE results (
    window_start_ms BIGINT,
    window_end_ms BIGINT,
    auction BIGINT,
    bids BIGINT
) WITH ($sink);

CREATE TEMPORARY VIEW bids AS
SELECT happened, bid.auction AS auction FROM events WHERE bid IS NOT NULL;

CREATE TEMPORARY VIEW counts AS
SELECT window_start, window_end, window_time, auction, COUNT(*) AS bids
FROM TABLE(HOP(TABLE bids, DESCRIPTOR(happened), INTERVAL '5' SECOND, INTERVAL '10' SECOND))
GROUP BY window_start, window_end, window_time, auction;

CREATE TEMPORARY VIEW mosts AS
SELECT window_start, window_end, MAX(bids) AS most
FROM counts
GROUP BY window_start, window_end;

INSERT INTO results
SELECT
    1000 * CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', counts.window_start) AS BIGINT),
    1000 * CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', counts.window_end) AS BIGINT),
    counts.auction, counts.bids
FROM counts JOIN mosts
    ON counts.window_start = mosts.window_start AND counts.window_end = mosts.window_end AND counts.bids = mosts.most;
