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
import java.util.Arrays;

/**
 * The Siddhi engine under the same load as the local engine: one thread, one event per send, playback.
 *
 * <p>Arguments: app file, events per second of event time, seed, output stream (or "-"), then one description per stream
 * ("S:symbol=string,100;price=float,0,100"). For each number read from standard input that many events are drawn and then sent; the
 * nanoseconds of this thread that sending took, and the events that came out, are printed.
 */
public final class Peer {
    private static final long START_MS = 1_000_000L;
    private static final ThreadMXBean THREAD = ManagementFactory.getThreadMXBean();
    private static long out;

    private Peer() {
    }

    public static void main(String[] args) throws Exception {
        String app = "@app:playback " + Files.readString(Path.of(args[0]));
        long perSecond = Long.parseLong(args[1]);
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
        Drawn drawn = new Drawn(START_MS, perSecond, Long.parseLong(args[2]), Arrays.copyOfRange(args, 4, args.length));
        for (int i = 0; i < streams; i++) {
            handlers[i] = runtime.getInputHandler(drawn.stream(i));
        }
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            int count = Integer.parseInt(line);
            long[] times = new long[count];
            Object[][] rows = new Object[count][];
            int[] turns = new int[count];
            for (int i = 0; i < count; i++) {
                rows[i] = drawn.next();
                turns[i] = drawn.turn();
                times[i] = drawn.time();
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
}
