import java.io.File;
import org.codehaus.janino.Compiler;

/** Compiles for the JVM what Spark is given as source, with the compiler among Spark's jars: a Java runtime alone has none. */
public class CompileForSpark {
    /** Compile SOURCE against this JVM's class path into DIRECTORY. */
    public static void main(String[] arguments) throws Exception {
        String[] names = System.getProperty("java.class.path").split(File.pathSeparator);
        File[] jars = new File[names.length];
        for (int i = 0; i < names.length; i++) {
            jars[i] = new File(names[i]);
        }
        Compiler compiler = new Compiler();
        compiler.setClassPath(jars);
        compiler.setDestinationDirectory(new File(arguments[1]), false);
        compiler.compile(new File[] {new File(arguments[0])});
    }
}
