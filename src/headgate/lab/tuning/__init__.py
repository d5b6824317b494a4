"""Finding settings of a policy for a load: a search, spread over Spark, and how sure its result is on other load."""
