package headgate;

import org.apache.flink.table.functions.ScalarFunction;

/**
 * Gives a number back after a time, in which the thread waits as for a service elsewhere: also many of them on a few
 * cores add up.
 */
public class Spent extends ScalarFunction {
    private double owedMs = 0.0;

    public Long eval(Long number, Double costMs) throws InterruptedException {
        owedMs += costMs.doubleValue();
        // Short waits last longer than requested: they are put together, and the excess is subtracted later.
        // Not all of it: a service elsewhere is not faster for a while because this machine has stood still.
        if (owedMs >= 2.0) {
            long before = System.nanoTime();
            Thread.sleep((long) owedMs);
            owedMs = Math.max(owedMs - (System.nanoTime() - before) / 1e6, -100.0);
        }
        return number;
    }

    public boolean isDeterministic() {
        return false;
    }
}
