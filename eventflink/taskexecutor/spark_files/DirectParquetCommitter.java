package eventflink;

import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.parquet.hadoop.ParquetOutputCommitter;

/**
 * Has Spark write Parquet files where they stay: an object store renames by copying.
 *
 * What other committers rename for is done otherwise for the outputs of tasks: the place is one attempt's own, an object appears there
 * complete or not at all, and nobody reads it before the attempt has compared its rows with those that Spark wrote, and the log has taken
 * it. The rule: nothing is removed here, for what a lost attempt left is removed with its job's intermediate data.
 */
public class DirectParquetCommitter extends ParquetOutputCommitter {
    private final Path place;

    public DirectParquetCommitter(Path place, TaskAttemptContext context) throws IOException {
        super(place, context);
        this.place = place;
    }

    @Override
    public Path getWorkPath() {
        return place;
    }

    @Override
    public void setupJob(JobContext context) {}

    @Override
    public void commitJob(JobContext context) {}

    @Override
    public void abortJob(JobContext context, JobStatus.State state) {}

    @Override
    public void setupTask(TaskAttemptContext context) {}

    @Override
    public boolean needsTaskCommit(TaskAttemptContext context) {
        return false;
    }

    @Override
    public void commitTask(TaskAttemptContext context) {}

    @Override
    public void abortTask(TaskAttemptContext context) {}
}
