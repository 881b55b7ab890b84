import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Fills Kafka topics with the events of a workload, as JSON, with their own times.
 *
 * <p>Arguments: bootstrap servers, prefix of the topics (then the stream), partitions, events, start in ms, events per
 * second of event time, seed, then one description per stream as `Drawn` takes them.
 */
public final class Load {
    private Load() {
    }

    public static void main(String[] args) throws Exception {
        int partitions = Integer.parseInt(args[2]);
        long count = Long.parseLong(args[3]);
        long start = Long.parseLong(args[4]);
        long perSecond = Long.parseLong(args[5]);
        Drawn drawn = new Drawn(start, perSecond, Long.parseLong(args[6]), Arrays.copyOfRange(args, 7, args.length));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            List<NewTopic> topics = new ArrayList<>();
            for (int i = 0; i < drawn.streams(); i++) {
                // The events are old: they must not be taken for what may be deleted.
                topics.add(new NewTopic(args[1] + drawn.stream(i), Optional.of(partitions), Optional.of((short) 1))
                        .configs(Map.of("retention.ms", "-1")));
            }
            admin.createTopics(topics).all().get();
        }
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", args[0], "acks", "all", "linger.ms", "5", "batch.size", "262144",
                "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class);
        JsonFactory json = new JsonFactory();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(256);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            for (long i = 0; i < count; i++) {
                Object[] row = drawn.next();
                int turn = drawn.turn();
                bytes.reset();
                try (JsonGenerator out = json.createGenerator(bytes)) {
                    KafkaPeer.write(out, drawn.names(turn), row);
                }
                int partition = Math.floorMod(row[0].hashCode(), partitions);
                producer.send(new ProducerRecord<>(
                        args[1] + drawn.stream(turn), partition, drawn.time(), null, bytes.toByteArray()));
            }
        }
    }
}
