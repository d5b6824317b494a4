-- Nexmark 3: who sells in one category, of those who live in three states. Both sides of the join stay in the state.
CREATE TABLE events (
    number BIGINT,
    at_ms BIGINT,
    person ROW<id BIGINT, name STRING, city STRING, state STRING>,
    auction ROW<id BIGINT, seller BIGINT, category INT, reserve BIGINT>
) WITH ($source);

CREATE TABLE results (
    auction BIGINT,
    seller BIGINT,
    name STRING,
    city STRING,
    state STRING
) WITH ($sink);

CREATE TEMPORARY VIEW persons AS
SELECT person.id AS seller, person.name AS name, person.city AS city, person.state AS state
FROM events
WHERE person.state IN ('OR', 'ID', 'CA');

CREATE TEMPORARY VIEW auctions AS
SELECT auction.id AS auction, auction.seller AS seller
FROM events
WHERE auction.category = 10;

INSERT INTO results
SELECT auctions.auction, persons.seller, persons.name, persons.city, persons.state
FROM auctions JOIN persons ON auctions.seller = persons.seller;
