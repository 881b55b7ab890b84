import java.util.function.LongFunction;

/** Draws the events of a workload, the same ones as the Python side does: streams in turn, fields uniform. */
final class Drawn {
    private final long startMs;
    private final long perSecond;
    private final String[] streams;
    private final String[][] names;
    private final Field[][] fields;
    private long state;
    private long number = -1;

    /** One description per stream, such as "S:symbol=string,100;price=float,0,100". */
    Drawn(long startMs, long perSecond, long seed, String[] descriptions) {
        this.startMs = startMs;
        this.perSecond = perSecond;
        this.state = seed;
        streams = new String[descriptions.length];
        names = new String[descriptions.length][];
        fields = new Field[descriptions.length][];
        for (int i = 0; i < descriptions.length; i++) {
            String[] parts = descriptions[i].split(":");
            String[] attributes = parts[1].split(";");
            streams[i] = parts[0];
            names[i] = new String[attributes.length];
            fields[i] = new Field[attributes.length];
            for (int j = 0; j < attributes.length; j++) {
                String[] named = attributes[j].split("=");
                names[i][j] = named[0];
                fields[i][j] = Field.of(named[1].split(","));
            }
        }
    }

    /** The row of the next event; `turn` and `time` then tell of which stream it is, and when. */
    Object[] next() {
        number++;
        Field[] chosen = fields[turn()];
        Object[] row = new Object[chosen.length];
        for (int j = 0; j < row.length; j++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            row[j] = chosen[j].value(state >>> 33, time());
        }
        return row;
    }

    int turn() {
        return (int) (number % streams.length);
    }

    long time() {
        return startMs + number * 1000 / perSecond;
    }

    String stream(int turn) {
        return streams[turn];
    }

    int streams() {
        return streams.length;
    }

    String[] names(int turn) {
        return names[turn];
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
