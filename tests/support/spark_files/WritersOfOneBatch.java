import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;

/** Lets two writers commit each batch at the same moment, by Spark's manager of a checkpoint's files, and says how many did. */
public class WritersOfOneBatch {
    private static final String MANAGER = "spark.sql.streaming.checkpointFileManagerClass";

    /**
     * Write ROUNDS batches into DIRECTORY; manager and file system are what KEY=VALUE... say. Print for each batch how many have written it,
     * and then whether a file is there that was given up: 0 if it is not.
     */
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        for (int i = 2; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=");
            configuration.set(setting[0], setting[1]);
        }
        String manager = configuration.get(MANAGER, FileContextBasedCheckpointFileManager.class.getName());
        final CheckpointFileManager files = (CheckpointFileManager) Class.forName(manager)
            .getConstructor(new Class[] {Path.class, Configuration.class})
            .newInstance(new Object[] {new Path(arguments[0]), configuration});
        final CyclicBarrier together = new CyclicBarrier(2);
        ExecutorService writers = Executors.newFixedThreadPool(2);
        for (int batch = 0; batch < Integer.parseInt(arguments[1]); batch++) {
            final Path path = new Path(arguments[0], String.valueOf(batch));
            Callable writer = new Callable() {
                public Object call() throws Exception {
                    CheckpointFileManager.CancellableFSDataOutputStream stream = files.createAtomic(path, false);
                    stream.write(Thread.currentThread().getName().getBytes());
                    together.await();
                    try {
                        stream.close();
                        return Integer.valueOf(1);
                    } catch (FileAlreadyExistsException taken) {
                        return Integer.valueOf(0);
                    }
                }
            };
            Future first = writers.submit(writer);
            Future second = writers.submit(writer);
            System.out.println(((Integer) first.get()).intValue() + ((Integer) second.get()).intValue());
        }
        writers.shutdown();
        Path path = new Path(arguments[0], "given-up");
        CheckpointFileManager.CancellableFSDataOutputStream stream = files.createAtomic(path, false);
        stream.write(1);
        stream.cancel();
        stream.close();
        System.out.println(files.exists(path) ? 1 : 0);
    }
}
