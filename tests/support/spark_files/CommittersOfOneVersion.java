import io.delta.storage.LogStore;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Lets two Sparks, each with a log store of its own, commit each version of a table at the same moment, and says how many did. */
public class CommittersOfOneVersion {
    /** Commit ROUNDS versions in DIRECTORY by the log store CLASS. Print of each how many have committed it, then whether one twice is one. */
    public static void main(String[] arguments) throws Exception {
        final Configuration configuration = new Configuration();
        for (int i = 3; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=");
            configuration.set(setting[0], setting[1]);
        }
        final LogStore[] sparks = {make(arguments[2], configuration), make(arguments[2], configuration)};
        final CyclicBarrier together = new CyclicBarrier(2);
        ExecutorService committers = Executors.newFixedThreadPool(2);
        Path last = null;
        for (int version = 0; version < Integer.parseInt(arguments[1]); version++) {
            final Path path = new Path(arguments[0], String.valueOf(version) + ".json");
            Future[] done = new Future[2];
            for (int i = 0; i < 2; i++) {
                final int spark = i;
                done[i] = committers.submit(new Callable() {
                    public Object call() throws Exception {
                        together.await();
                        return Integer.valueOf(commit(sparks[spark], path, "of spark " + spark, configuration));
                    }
                });
            }
            System.out.println(((Integer) done[0].get()).intValue() + ((Integer) done[1].get()).intValue());
            last = path;
        }
        committers.shutdown();
        Path again = new Path(arguments[0], "again.json");
        System.out.println(
            commit(sparks[0], again, "the same", configuration) + commit(sparks[0], again, "the same", configuration)
            + commit(sparks[1], again, "another", configuration));
        sparks[0].write(last, Arrays.asList(new String[] {"over it"}).iterator(), Boolean.TRUE, configuration);
        System.out.println((String) sparks[1].read(last, configuration).next());
    }

    private static LogStore make(String name, Configuration configuration) throws Exception {
        return (LogStore) Class.forName(name)
            .getConstructor(new Class[] {Configuration.class})
            .newInstance(new Object[] {configuration});
    }

    private static int commit(LogStore spark, Path path, String action, Configuration configuration) throws Exception {
        try {
            spark.write(path, Arrays.asList(new String[] {action}).iterator(), Boolean.FALSE, configuration);
            return 1;
        } catch (FileAlreadyExistsException taken) {
            return 0;
        }
    }
}
