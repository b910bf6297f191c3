import java.io.File;
import org.codehaus.janino.Compiler;

/** Compiles for the JVM what Spark is given as source, with the compiler among Spark's jars: a Java runtime alone has none. */
public class CompileForSpark {
    /** Compile SOURCES against this JVM's class path into DIRECTORY, which comes first. */
    public static void main(String[] arguments) throws Exception {
        String[] names = System.getProperty("java.class.path").split(File.pathSeparator);
        File[] jars = new File[names.length];
        for (int i = 0; i < names.length; i++) {
            jars[i] = new File(names[i]);
        }
        Compiler compiler = new Compiler();
        compiler.setClassPath(jars);
        compiler.setDestinationDirectory(new File(arguments[0]), false);
        File[] sources = new File[arguments.length - 1];
        for (int i = 0; i < sources.length; i++) {
            sources[i] = new File(arguments[i + 1]);
        }
        compiler.compile(sources);
    }
}
