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

/** Lets two writers commit each batch at the same moment, by Spark's own manager of a checkpoint's files, and says how many did. */
public class WritersOfOneBatch {
    /** Write ROUNDS batches into DIRECTORY; the file system is what KEY=VALUE... say. Print for each batch how many have written it. */
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        for (int i = 2; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=");
            configuration.set(setting[0], setting[1]);
        }
        final CheckpointFileManager files = new FileContextBasedCheckpointFileManager(new Path(arguments[0]), configuration);
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
    }
}
