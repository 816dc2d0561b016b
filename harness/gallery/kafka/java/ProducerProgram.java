// A client program of the gallery that sends with the Java producer. The protocol is explained in clients.py.
//
//     java -cp kafka-clients.jar:… ProducerProgram.java
//
// One source file, which `java` compiles when it runs it; no library but the Java client itself.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ProducerProgram {
    private static final long CLOSE_SECONDS = 15;

    private final PrintStream out;
    private final Map<Long, Open> open = new ConcurrentHashMap<>();
    private final Map<Long, Load> loads = new ConcurrentHashMap<>();
    private final Map<Long, Fate> inTransaction = new ConcurrentHashMap<>();
    private volatile boolean transaction;
    private KafkaProducer<byte[], byte[]> producer;

    /** What is known of a record whose transaction has not ended. */
    private record Fate(String type, long offset, String error) {}

    /** A record whose fate is not known yet. */
    private record Open(long op, long value, int partition, long invoked) {}

    ProducerProgram(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // what libraries print is no answer
        ProducerProgram program = new ProducerProgram(out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> command = new Json(line).object();
            try {
                program.carryOut(command);
            } catch (RuntimeException trouble) {
                program.answer("{\"op\": " + command.get("op") + ", \"error\": " + quoted(trouble.toString()) + "}");
            }
        }
        System.exit(0);
    }

    private void carryOut(Map<String, Object> command) {
        long op = number(command, "op");
        switch (String.valueOf(command.get("do"))) {
            case "open" -> {
                Properties settings = new Properties();
                ((Map<?, ?>) command.get("settings")).forEach((key, value) -> settings.put(key, String.valueOf(value)));
                producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
                if (settings.containsKey("transactional.id")) {
                    producer.initTransactions();
                }
                answer("{\"op\": " + op + ", \"client\": " + quoted("java " + version()) + "}");
            }
            case "send" -> {
                List<Integer> partitions = partitions(command);
                long value = number(command, "first");
                for (long round = 0; round < number(command, "each"); round++) {
                    for (int partition : partitions) {
                        send(op, command, partition, value++);
                    }
                }
                done(op);
            }
            case "load" -> {
                Load load = new Load(op, command);
                loads.put(op, load);
                load.start();
            }
            case "stop" -> {
                loads.remove(number(command, "load")).end();
                done(op);
            }
            case "begin" -> {
                producer.beginTransaction();
                transaction = true;
                done(op);
            }
            case "commit", "abort" -> {
                endTransaction("commit".equals(command.get("do")));
                done(op);
            }
            case "position" -> {
                producer.sendOffsetsToTransaction(
                        Map.of(
                                new TopicPartition((String) command.get("place"), (int) number(command, "partition")),
                                new OffsetAndMetadata(number(command, "offset"))),
                        new ConsumerGroupMetadata((String) command.get("group")));
                done(op);
            }
            case "close" -> {
                loads.values().forEach(Load::end);
                loads.clear();
                producer.close(Duration.ofSeconds(CLOSE_SECONDS));
                open.keySet().forEach(value -> end(value, "info", -1, "open when the client was closed"));
                done(op);
            }
            default -> throw new IllegalArgumentException("do: " + command.get("do") + " is not known");
        }
    }

    private void send(long op, Map<String, Object> command, int partition, long value) {
        byte[] content = content(value, (int) number(command, "size"));
        open.put(value, new Open(op, value, partition, System.nanoTime()));
        try {
            producer.send(
                    new ProducerRecord<>((String) command.get("topic"), partition, null, content),
                    (metadata, trouble) -> {
                        Fate fate = trouble == null
                                ? new Fate("ok", metadata.offset(), null)
                                : new Fate("info", -1, trouble.getClass().getSimpleName());
                        if (transaction) {
                            inTransaction.put(value, fate);
                            if (trouble == null) {
                                answer("{\"op\": " + op + ", \"appended\": " + value + "}");
                            }
                        } else {
                            end(value, fate.type, fate.offset, fate.error);
                        }
                    });
        } catch (RuntimeException trouble) {
            end(value, "info", -1, trouble.getClass().getSimpleName());
        }
    }

    /** The records of a transaction share its fate, and it is told when the transaction has ended. */
    private void endTransaction(boolean committed) {
        try {
            if (committed) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        } catch (RuntimeException trouble) {
            open.keySet().forEach(value -> end(value, "info", -1, "the end of the transaction is not known"));
            throw trouble;
        } finally {
            transaction = false;
        }
        for (long value : open.keySet()) {
            Fate fate = committed
                    ? inTransaction.getOrDefault(value, new Fate("info", -1, "no report of it"))
                    : new Fate("fail", -1, "aborted");
            end(value, fate.type, fate.offset, fate.error);
        }
        inTransaction.clear();
    }

    private void end(long value, String type, long offset, String error) {
        Open begun = open.remove(value);
        if (begun == null) {
            return;
        }
        answer("{\"op\": " + begun.op + ", \"value\": " + value + ", \"partition\": " + begun.partition
                + ", \"type\": \"" + type + "\", \"invoked\": " + begun.invoked
                + ", \"completed\": " + System.nanoTime()
                + (offset < 0 ? "" : ", \"offset\": " + offset)
                + (error == null ? "" : ", \"error\": " + quoted(error)) + "}");
    }

    /** The version that the client's jar states. */
    private static String version() {
        Properties stated = new Properties();
        try (InputStream in = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            stated.load(in);
        } catch (IOException | NullPointerException trouble) {
            return "unknown";
        }
        return stated.getProperty("version", "unknown");
    }

    private void done(long op) {
        answer("{\"op\": " + op + ", \"done\": true}");
    }

    private synchronized void answer(String line) {
        out.println(line);
        out.flush();
    }

    /** The number in decimal digits, filled up with spaces. */
    private static byte[] content(long value, int size) {
        byte[] digits = Long.toString(value).getBytes(StandardCharsets.US_ASCII);
        byte[] content = Arrays.copyOf(digits, Math.max(size, digits.length));
        Arrays.fill(content, digits.length, content.length, (byte) ' ');
        return content;
    }

    private static List<Integer> partitions(Map<String, Object> command) {
        List<Integer> partitions = new ArrayList<>();
        ((List<?>) command.get("partitions")).forEach(one -> partitions.add(((Long) one).intValue()));
        return partitions;
    }

    private static long number(Map<String, Object> command, String name) {
        return (Long) command.get(name);
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one == '"' || one == '\\') {
                quoted.append('\\').append(one);
            } else if (one < ' ') {
                quoted.append(' ');
            } else {
                quoted.append(one);
            }
        }
        return quoted.append('"').toString();
    }

    /** Sends at a rate, in a thread of its own, because `send` may block. */
    private final class Load extends Thread {
        private final long op;
        private final Map<String, Object> command;
        private volatile boolean over;

        Load(long op, Map<String, Object> command) {
            this.op = op;
            this.command = command;
            setDaemon(true);
        }

        @Override
        public void run() {
            List<Integer> partitions = partitions(command);
            long first = number(command, "first");
            long rate = number(command, "rate");
            long began = System.nanoTime();
            long made = 0;
            while (!over) {
                long wanted = (System.nanoTime() - began) * rate / 1_000_000_000L;
                for (; made < wanted && !over; made++) {
                    send(op, command, partitions.get((int) (made % partitions.size())), first + made);
                }
                try {
                    Thread.sleep(1);
                } catch (InterruptedException stopped) {
                    return;
                }
            }
        }

        void end() {
            over = true;
            try {
                join();
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Reads one JSON value: objects, lists, texts, whole numbers, true, false and null. */
    private static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Map<String, Object> object() {
            Map<String, Object> found = new LinkedHashMap<>();
            expect('{');
            while (next() != '}') {
                String key = string();
                expect(':');
                found.put(key, value());
                if (next() == ',') {
                    at++;
                }
            }
            at++;
            return found;
        }

        private Object value() {
            char first = next();
            if (first == '{') {
                return object();
            }
            if (first == '"') {
                return string();
            }
            if (first == '[') {
                List<Object> found = new ArrayList<>();
                at++;
                while (next() != ']') {
                    found.add(value());
                    if (next() == ',') {
                        at++;
                    }
                }
                at++;
                return found;
            }
            int begin = at;
            while (at < text.length() && ",]} ".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            String word = text.substring(begin, at);
            return switch (word) {
                case "true" -> Boolean.TRUE;
                case "false" -> Boolean.FALSE;
                case "null" -> null;
                default -> Long.parseLong(word);
            };
        }

        private String string() {
            expect('"');
            StringBuilder found = new StringBuilder();
            while (text.charAt(at) != '"') {
                char one = text.charAt(at++);
                if (one != '\\') {
                    found.append(one);
                    continue;
                }
                char escaped = text.charAt(at++);
                switch (escaped) {
                    case 'n' -> found.append('\n');
                    case 't' -> found.append('\t');
                    case 'r' -> found.append('\r');
                    case 'b' -> found.append('\b');
                    case 'f' -> found.append('\f');
                    case 'u' -> {
                        found.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                        at += 4;
                    }
                    default -> found.append(escaped);
                }
            }
            at++;
            return found.toString();
        }

        private char next() {
            while (Character.isWhitespace(text.charAt(at))) {
                at++;
            }
            return text.charAt(at);
        }

        private void expect(char wanted) {
            if (next() != wanted) {
                throw new IllegalArgumentException("not JSON at " + at + ": " + text);
            }
            at++;
        }
    }
}
