package eventflink;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system for Spark, by Java's own calls where Hadoop without its native library starts `chmod`, `readlink` or `ls`.
 *
 * Everything that is not overridden here is Hadoop's, the checksums of this class among it. The rule: nothing that Spark calls starts a
 * process. Spark's driver gets it compiled, as a jar on its class path (`spark_jars.py`).
 */
public class NioLocalFileSystem extends LocalFileSystem {
    public NioLocalFileSystem() {
        super(new Raw());
    }

    static class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            Files.setAttribute(pathToFile(path).toPath(), "unix:mode", Integer.valueOf(permission.toShort()));
        }

        @Override
        public FileStatus getFileStatus(Path path) throws IOException {
            return status(path, new LinkOption[0]);
        }

        @Override
        public FileStatus getFileLinkStatus(Path path) throws IOException {
            return status(path, new LinkOption[] {LinkOption.NOFOLLOW_LINKS});
        }

        @Override
        public Path getLinkTarget(Path path) throws IOException {
            return getFileLinkStatus(path).getSymlink();
        }

        @Override
        public FileStatus[] listStatus(Path path) throws IOException {
            return pathToFile(path).isFile() ? new FileStatus[] {getFileStatus(path)} : super.listStatus(path);
        }

        private FileStatus status(Path path, LinkOption[] options) throws IOException {
            java.nio.file.Path file = pathToFile(path).toPath();
            Map attributes;
            try {
                attributes = Files.readAttributes(file, "unix:*", options);
            } catch (FileSystemException missing) { // Also where a directory on the way is a file, or may not be searched.
                FileNotFoundException error = new FileNotFoundException("File " + path + " does not exist: " + missing);
                error.initCause(missing);
                throw error;
            }
            boolean isLink = ((Boolean) attributes.get("isSymbolicLink")).booleanValue();
            return new FileStatus(
                ((Long) attributes.get("size")).longValue(),
                ((Boolean) attributes.get("isDirectory")).booleanValue(),
                1,
                getDefaultBlockSize(path),
                ((FileTime) attributes.get("lastModifiedTime")).toMillis(),
                ((FileTime) attributes.get("lastAccessTime")).toMillis(),
                new FsPermission((short) (((Integer) attributes.get("mode")).intValue() & 01777)),
                attributes.get("owner").toString(),
                attributes.get("group").toString(),
                isLink ? new Path(Files.readSymbolicLink(file).toString()) : null,
                makeQualified(path));
        }
    }

    /**
     * The same files for Hadoop's FileContext, with which Spark writes checkpoints: a file appears under its name complete, and at most once.
     *
     * Hadoop looks whether the name is free and then renames, so that of two writers of one batch the second can replace what the first has
     * committed; and to overwrite, it deletes first. No checksums: Spark deletes those of a checkpoint's files, and writes others.
     */
    public static class Context extends DelegateToFileSystem {
        public Context(URI uri, Configuration configuration) throws IOException, URISyntaxException {
            super(uri, new Raw(), configuration, FsConstants.LOCAL_FS_URI.getScheme(), false);
        }

        @Override
        public int getUriDefaultPort() {
            return -1;
        }

        @Override
        public boolean isValidName(String name) {
            return true; // As Hadoop's own: what may be in a name is the file system's to say.
        }

        @Override
        public void renameInternal(Path from, Path to, boolean overwrite) throws IOException {
            java.nio.file.Path source = file(from);
            java.nio.file.Path target = file(to);
            if (!Files.isRegularFile(source, LinkOption.NOFOLLOW_LINKS)) {
                super.renameInternal(from, to, overwrite);
            } else if (overwrite) {
                Files.move(source, target, StandardCopyOption.ATOMIC_MOVE);
            } else {
                try {
                    Files.createLink(target, source);
                } catch (java.nio.file.FileAlreadyExistsException taken) {
                    throw new FileAlreadyExistsException("rename destination " + to + " already exists.");
                } catch (FileSystemException noLinks) { // Some file systems have no hard links: then as Hadoop does it.
                    super.renameInternal(from, to, false);
                    return;
                }
                Files.delete(source);
            }
        }

        private java.nio.file.Path file(Path path) {
            return ((Raw) fsImpl).pathToFile(path).toPath();
        }
    }
}
