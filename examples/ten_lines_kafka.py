"""The ten lines with Kafka: a broker and a cluster on this machine, a topic that is fed, a query that reads it.

Needs the extra ``kafka`` and Java 17 or newer. In a job of your own only ``autoscale`` is new; it needs ``take_over``
only where Spark's own dynamic allocation is running, as in sessions of ``LocalCluster``.
"""

import subprocess
import sys

import headgate
from headgate.apps import working
from headgate.local import find_connector

FEED = [sys.executable, "-m", "headgate", "load", "spike:base=20,peak=120,at=40s,width=40s", "--seconds", "2m"]

with headgate.LocalKafka() as kafka, headgate.LocalCluster(slots=4) as cluster:
    kafka.create_topic("events", partitions=8)
    with cluster.session("ten-lines-kafka", settings={"spark.jars": find_connector().spark_jars}) as spark:
        events = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", kafka.bootstrap)
            .option("subscribe", "events")
            .load()
            .select("value")
        )
        results = events.mapInArrow(working(0.02), events.schema).writeStream.format("parquet")
        query = results.start(path="out", checkpointLocation="checkpoint")
        with subprocess.Popen([*FEED, "--to", "kafka:events", "--bootstrap", kafka.bootstrap]) as feed:
            with headgate.autoscale(spark, "latency p95 < 10s", executors=(1, 4), journal="run.db", take_over=True):
                query.awaitTermination(120)
            feed.terminate()
