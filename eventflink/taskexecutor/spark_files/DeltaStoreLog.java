package eventflink;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * How Delta writes the log of a table in S3: each commit in one request, which the store refuses where a commit of that version is there.
 *
 * Delta's own class for S3 looks whether it is there, and then writes; so of two Sparks that commit a version both believe to have done it,
 * and the rows of one are lost. The rule: of those one is told that it was late. A request that was repeated, since its answer was lost, is
 * refused as well: so what is there is read, and if it is what was to be written, it was.
 */
public class DeltaStoreLog extends HadoopFileSystemLogStore {
    private static final String ONCE = "fs.option.create.conditional.overwrite";

    public DeltaStoreLog(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator actions, Boolean overwrite, Configuration configuration) throws IOException {
        FileSystem store = path.getFileSystem(configuration);
        boolean isOnce = !overwrite.booleanValue();
        if (isOnce && !store.hasPathCapability(path, ONCE)) {
            throw new UnsupportedOperationException(
                "commits in " + path.getParent() + " need conditional writes: set fs.s3a.create.conditional.enabled to true");
        }
        byte[] commit = bytesOf(actions);
        FSDataOutputStreamBuilder builder = store.createFile(path);
        builder.recursive();
        builder.overwrite(true);
        if (isOnce) {
            builder.must(ONCE, true);
        }
        try {
            FSDataOutputStream stream = (FSDataOutputStream) builder.build();
            stream.write(commit);
            stream.close();
        } catch (IOException error) {
            if (!isOnce || !store.exists(path)) {
                throw error;
            }
            if (!isThere(store, path, commit)) {
                FileAlreadyExistsException late = new FileAlreadyExistsException(path.toString());
                late.initCause(error);
                throw late;
            }
        }
    }

    @Override
    public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
        return Boolean.FALSE;
    }

    private static byte[] bytesOf(Iterator actions) throws IOException {
        ByteArrayOutputStream commit = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            commit.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
            commit.write('\n');
        }
        return commit.toByteArray();
    }

    private static boolean isThere(FileSystem store, Path path, byte[] commit) throws IOException {
        if (store.getFileStatus(path).getLen() != commit.length) {
            return false;
        }
        byte[] found = new byte[commit.length];
        FSDataInputStream stream = store.open(path);
        try {
            stream.readFully(0L, found);
        } finally {
            stream.close();
        }
        return Arrays.equals(found, commit);
    }
}
