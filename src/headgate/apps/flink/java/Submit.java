package headgate;

import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;

/**
 * Runs the statements of a file on the cluster that the settings name: the folder of the settings, the file.
 * Prints the number of the job, or what is wrong on the last line of standard error.
 */
public class Submit {
    public static void main(String[] arguments) {
        try {
            run(arguments[0], arguments[1]);
        } catch (Throwable error) {
            error.printStackTrace();
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.err.println(String.valueOf(cause.getMessage()).replace('\n', ' '));
            System.exit(1);
        }
        System.exit(0);
    }

    private static void run(String settings, String script) throws Exception {
        // By the class behind the interface: the compiler that Flink brings calls no static method of an interface.
        TableEnvironment tables = TableEnvironmentImpl.create(EnvironmentSettings.newInstance()
            .inStreamingMode().withConfiguration(GlobalConfiguration.loadConfiguration(settings)).build());
        String[] statements = Files.readString(Paths.get(script, new String[0])).split(";\\s*\n");
        for (int i = 0; i < statements.length; i++) {
            TableResult result = tables.executeSql(statements[i]);
            if (result.getJobClient().isPresent()) {
                System.out.println(((JobClient) result.getJobClient().get()).getJobID());
            }
        }
    }
}
