"""How the records of each application are made, without Spark: seeded, and the same whenever they are made again."""
