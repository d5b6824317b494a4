import headgate
from headgate.apps import LoadSource, working

with headgate.LocalCluster(slots=4) as cluster, cluster.session("ten-lines") as spark:
    spark.dataSource.register(LoadSource)
    load = "spike:base=20,peak=120,at=40s,width=40s"  # records/s; each takes 20 ms of an executor's time
    events = spark.readStream.format("headgate-load").option("workload", load).load()
    query = events.mapInArrow(working(0.02), events.schema).writeStream.format("noop").start()
    with headgate.autoscale(spark, "latency p95 < 10s", executors=(1, 4), journal="run.db", take_over=True):
        query.awaitTermination(120)
