import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.StreamWriteFeature;
import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import io.siddhi.query.api.definition.Attribute;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The Siddhi engine between Kafka topics: one thread, lean connectors of its own, events merged by their time.
 *
 * <p>Arguments: bootstrap servers, app file, prefix of the topics that are read (then the stream), output stream (or "-"),
 * topic that is written, runs. Each run reads the topics from their beginning to the end that they have then, and prints
 * the seconds from the first poll to the last acknowledgement, the events read and the events put out.
 */
public final class KafkaPeer {
    private final JsonFactory json = JsonFactory.builder()
            .enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER).enable(StreamWriteFeature.USE_FAST_DOUBLE_WRITER).build();
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(256);
    private final String servers;
    private long out;

    private KafkaPeer(String servers) {
        this.servers = servers;
    }

    public static void main(String[] args) throws Exception {
        KafkaPeer peer = new KafkaPeer(args[0]);
        for (int run = 0; run < Integer.parseInt(args[5]); run++) {
            peer.run("@app:playback " + Files.readString(Path.of(args[1])), args[2], args[3], args[4]);
        }
        System.exit(0);
    }

    /** Write an event as Siddhi's JSON mapping does. */
    static void write(JsonGenerator out, String[] names, Object[] row) throws IOException {
        out.writeStartObject();
        out.writeObjectFieldStart("event");
        for (int i = 0; i < names.length; i++) {
            out.writeFieldName(names[i]);
            Object value = row[i];
            if (value == null) {
                out.writeNull();
            } else if (value instanceof String) {
                out.writeString((String) value);
            } else if (value instanceof Float) {
                out.writeNumber((Float) value);
            } else if (value instanceof Double) {
                out.writeNumber((Double) value);
            } else if (value instanceof Boolean) {
                out.writeBoolean((Boolean) value);
            } else {
                out.writeNumber(((Number) value).longValue());
            }
        }
        out.writeEndObject();
        out.writeEndObject();
    }

    private void run(String app, String prefix, String output, String topic) throws Exception {
        SiddhiManager manager = new SiddhiManager();
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(app);
        Map<String, Object> writing = Map.of(
                "bootstrap.servers", servers, "acks", "all", "linger.ms", "5", "batch.size", "262144",
                "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class);
        Map<String, Object> reading = Map.of(
                "bootstrap.servers", servers, "max.poll.records", "5000", "auto.offset.reset", "earliest",
                "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing);
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading)) {
            out = 0;
            if (!output.equals("-")) {
                String[] names = names(runtime.getStreamDefinitionMap().get(output).getAttributeList());
                runtime.addCallback(output, new StreamCallback() {
                    @Override
                    public void receive(Event[] events) {
                        for (Event event : events) {
                            send(producer, topic, names, event);
                        }
                    }
                });
            }
            runtime.start();
            List<Lane> lanes = lanes(consumer, runtime, prefix);
            long left = lanes.stream().mapToLong(lane -> lane.left).sum();
            long events = left;
            long began = System.nanoTime();
            while (left > 0) {
                left -= poll(consumer, lanes);
            }
            producer.flush();
            System.out.println("took " + (System.nanoTime() - began) / 1e9 + " " + events + " " + out);
        } finally {
            runtime.shutdown();
        }
    }

    private static String[] names(List<Attribute> attributes) {
        return attributes.stream().map(Attribute::getName).toArray(String[]::new);
    }

    private void send(KafkaProducer<byte[], byte[]> producer, String topic, String[] names, Event event) {
        bytes.reset();
        try (JsonGenerator written = json.createGenerator(bytes)) {
            write(written, names, event.getData());
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        producer.send(new ProducerRecord<>(topic, null, event.getTimestamp(), null, bytes.toByteArray()));
        out++;
    }

    private static List<Lane> lanes(KafkaConsumer<byte[], byte[]> consumer, SiddhiAppRuntime runtime, String prefix) {
        List<Lane> lanes = new ArrayList<>();
        for (String stream : runtime.getStreamDefinitionMap().keySet()) {
            List<PartitionInfo> found = consumer.listTopics().get(prefix + stream);
            if (found != null) {
                List<Attribute> attributes = runtime.getStreamDefinitionMap().get(stream).getAttributeList();
                for (PartitionInfo part : found) {
                    lanes.add(new Lane(new TopicPartition(part.topic(), part.partition()), attributes,
                            runtime.getInputHandler(stream)));
                }
            }
        }
        List<TopicPartition> all = lanes.stream().map(lane -> lane.partition).toList();
        consumer.assign(all);
        consumer.seekToBeginning(all);
        Map<TopicPartition, Long> ends = consumer.endOffsets(all);
        lanes.forEach(lane -> lane.left = ends.get(lane.partition));
        return lanes;
    }

    /** Read on, and deliver in the order of time what no lane can still precede. */
    private int poll(KafkaConsumer<byte[], byte[]> consumer, List<Lane> lanes) throws Exception {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
            for (Lane lane : lanes) {
                if (lane.partition.partition() == record.partition() && lane.partition.topic().equals(record.topic())) {
                    lane.waiting.add(record);
                    break;
                }
            }
        }
        int delivered = 0;
        while (true) {
            Lane first = null;
            for (Lane lane : lanes) {
                if (lane.waiting.isEmpty()) {
                    if (lane.left > 0) {
                        return delivered;
                    }
                } else if (first == null || lane.waiting.peek().timestamp() < first.waiting.peek().timestamp()) {
                    first = lane;
                }
            }
            if (first == null) {
                return delivered;
            }
            ConsumerRecord<byte[], byte[]> record = first.waiting.poll();
            first.left--;
            first.handler.send(record.timestamp(), first.read(json, record.value()));
            delivered++;
        }
    }

    /** A topic partition and the stream that it feeds. */
    private static final class Lane {
        private final TopicPartition partition;
        private final Map<String, Integer> places = new HashMap<>();
        private final Attribute.Type[] types;
        private final InputHandler handler;
        private final ArrayDeque<ConsumerRecord<byte[], byte[]>> waiting = new ArrayDeque<>();
        private long left;

        private Lane(TopicPartition partition, List<Attribute> attributes, InputHandler handler) {
            this.partition = partition;
            this.handler = handler;
            types = attributes.stream().map(Attribute::getType).toArray(Attribute.Type[]::new);
            for (int i = 0; i < types.length; i++) {
                places.put(attributes.get(i).getName(), i);
            }
        }

        private Object[] read(JsonFactory json, byte[] payload) throws IOException {
            Object[] row = new Object[types.length];
            try (JsonParser parser = json.createParser(payload)) {
                parser.nextToken();
                parser.nextFieldName();
                parser.nextToken();
                while (parser.nextToken() == JsonToken.FIELD_NAME) {
                    int place = places.get(parser.currentName());
                    parser.nextToken();
                    row[place] = value(parser, types[place]);
                }
            }
            return row;
        }

        private static Object value(JsonParser parser, Attribute.Type type) throws IOException {
            switch (type) {
                case STRING:
                    return parser.getText();
                case INT:
                    return parser.getIntValue();
                case LONG:
                    return parser.getLongValue();
                case FLOAT:
                    return parser.getFloatValue();
                case DOUBLE:
                    return parser.getDoubleValue();
                default:
                    return parser.getBooleanValue();
            }
        }
    }
}
