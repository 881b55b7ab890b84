import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.LongFunction;

/**
 * The Siddhi engine under the same load as the local engine: one thread, one event per send, playback.
 *
 * <p>Arguments: app file, events per second of event time, seed, output stream (or "-"), then one description per stream
 * ("S:string,100;float,0,100"). For each number read from standard input that many events are drawn and then sent; the
 * nanoseconds of this thread that sending took, and the events that came out, are printed.
 */
public final class Peer {
    private static final long START_MS = 1_000_000L;
    private static final ThreadMXBean THREAD = ManagementFactory.getThreadMXBean();
    private static long drawn;
    private static long out;

    private Peer() {
    }

    public static void main(String[] args) throws Exception {
        String app = "@app:playback " + Files.readString(Path.of(args[0]));
        long perSecond = Long.parseLong(args[1]);
        drawn = Long.parseLong(args[2]);
        int streams = args.length - 4;
        SiddhiManager manager = new SiddhiManager();
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(app);
        if (!args[3].equals("-")) {
            runtime.addCallback(args[3], new StreamCallback() {
                @Override
                public void receive(Event[] events) {
                    out += events.length;
                }
            });
        }
        runtime.start();
        InputHandler[] handlers = new InputHandler[streams];
        Field[][] fields = new Field[streams][];
        for (int i = 0; i < streams; i++) {
            String[] parts = args[4 + i].split(":");
            handlers[i] = runtime.getInputHandler(parts[0]);
            String[] descriptions = parts[1].split(";");
            fields[i] = new Field[descriptions.length];
            for (int j = 0; j < descriptions.length; j++) {
                fields[i][j] = Field.of(descriptions[j].split(","));
            }
        }
        long number = 0;
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            int count = Integer.parseInt(line);
            long[] times = new long[count];
            Object[][] rows = new Object[count][];
            int[] turns = new int[count];
            for (int i = 0; i < count; i++, number++) {
                turns[i] = (int) (number % streams);
                times[i] = START_MS + number * 1000 / perSecond;
                rows[i] = new Object[fields[turns[i]].length];
                for (int j = 0; j < rows[i].length; j++) {
                    drawn = drawn * 6364136223846793005L + 1442695040888963407L;
                    rows[i][j] = fields[turns[i]][j].value(drawn >>> 33, times[i]);
                }
            }
            out = 0;
            long began = THREAD.getCurrentThreadCpuTime();
            for (int i = 0; i < count; i++) {
                handlers[turns[i]].send(times[i], rows[i]);
            }
            System.out.println("took " + (THREAD.getCurrentThreadCpuTime() - began) + " " + out);
        }
        System.exit(0);
    }

    /** From 31 drawn bits and the event's time to a value. */
    private interface Field {
        Object value(long bits, long time);

        static Field of(String[] parts) {
            if (parts[0].equals("timestamp")) {
                return (bits, time) -> time;
            }
            if (parts[0].equals("string")) {
                String[] names = new String[Integer.parseInt(parts[1])];
                for (int i = 0; i < names.length; i++) {
                    names[i] = "S" + i;
                }
                return (bits, time) -> names[(int) (bits % names.length)];
            }
            long low = Long.parseLong(parts[1]);
            long high = Long.parseLong(parts[2]);
            LongFunction<Object> value;
            switch (parts[0]) {
                case "int":
                    value = bits -> (int) (low + bits % (high - low + 1));
                    break;
                case "long":
                    value = bits -> low + bits % (high - low + 1);
                    break;
                case "double":
                    value = bits -> low + bits * 0x1p-31 * (high - low);
                    break;
                default:
                    value = bits -> (float) (low + bits * 0x1p-31 * (high - low));
            }
            return (bits, time) -> value.apply(bits);
        }
    }
}
