package eventflink;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * How Spark writes the files of checkpoints to S3: each in one request, which the store refuses where such an object is there already.
 *
 * Spark's own managers write beside a file's place and rename, which S3 does by copying over whatever is there; so of two queries that note
 * one batch both would believe to have noted it. The rule: of those one is told that it was late, and a file that is given up is never seen.
 * Places in other file systems are written as Spark writes them.
 */
public class StoreCheckpointFiles implements CheckpointFileManager {
    private static final String ONCE = "fs.option.create.conditional.overwrite";

    private final FileSystem store;
    private final CheckpointFileManager files;

    public StoreCheckpointFiles(Path place, Configuration configuration) throws IOException {
        FileSystem system = place.getFileSystem(configuration);
        boolean isS3 = "s3a".equals(system.getUri().getScheme());
        if (isS3 && !system.hasPathCapability(place, ONCE)) {
            throw new UnsupportedOperationException(
                "checkpoints in " + place + " need conditional writes: set fs.s3a.create.conditional.enabled to true");
        }
        store = isS3 ? system : null;
        files = isS3
            ? (CheckpointFileManager) new FileSystemBasedCheckpointFileManager(place, configuration)
            : (CheckpointFileManager) new FileContextBasedCheckpointFileManager(place, configuration);
    }

    @Override
    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
        return store == null ? files.createAtomic(path, overwrite) : write(path, overwrite);
    }

    private CheckpointFileManager.CancellableFSDataOutputStream write(Path path, boolean overwrite) {
        FSDataOutputStreamBuilder builder = store.createFile(path);
        builder.recursive();
        builder.overwrite(true);
        if (!overwrite) {
            builder.must(ONCE, true);
        }
        try {
            return new Written(store, path, (FSDataOutputStream) builder.build(), overwrite);
        } catch (IOException error) { // Spark's interface is Scala's, which declares none.
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public FSDataInputStream open(Path path) {
        return files.open(path);
    }

    @Override
    public FileStatus[] list(Path path, PathFilter filter) {
        return files.list(path, filter);
    }

    @Override
    public void mkdirs(Path path) {
        files.mkdirs(path);
    }

    @Override
    public boolean exists(Path path) {
        return files.exists(path);
    }

    @Override
    public void delete(Path path) {
        files.delete(path);
    }

    @Override
    public boolean isLocal() {
        return files.isLocal();
    }

    @Override
    public Path createCheckpointDirectory() {
        return files.createCheckpointDirectory();
    }

    /** A file that is there as soon as it is closed, and never if it is cancelled before. */
    static class Written extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final FileSystem store;
        private final Path path;
        private final FSDataOutputStream stream;
        private final boolean overwrite;
        private boolean hasEnded = false;

        Written(FileSystem store, Path path, FSDataOutputStream stream, boolean overwrite) {
            super(stream);
            this.store = store;
            this.path = path;
            this.stream = stream;
            this.overwrite = overwrite;
        }

        @Override
        public synchronized void close() throws IOException {
            if (hasEnded) {
                return;
            }
            hasEnded = true;
            try {
                stream.close();
            } catch (IOException error) {
                if (!overwrite && isThere()) {
                    FileAlreadyExistsException late = new FileAlreadyExistsException(path + " was written before: " + error);
                    late.initCause(error);
                    throw late;
                }
                throw error;
            }
        }

        @Override
        public synchronized void cancel() {
            if (!hasEnded) {
                hasEnded = true;
                stream.abort();
            }
        }

        private boolean isThere() {
            try {
                return store.exists(path);
            } catch (IOException unknown) {
                return false;
            }
        }
    }
}
