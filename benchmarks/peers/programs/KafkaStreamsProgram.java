import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.module.blackbird.BlackbirdModule;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** The workloads in Kafka Streams: java KafkaStreamsProgram [property=value ...], with the environment of a Task. */
public class KafkaStreamsProgram {
  static final int LAST = 100;
  static final Duration SPAN = Duration.ofSeconds(10);
  static final ObjectMapper JSON = new ObjectMapper()
      .registerModule(new BlackbirdModule())
      .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
  static final AtomicBoolean STARTED = new AtomicBoolean();

  public static class Input {
    public String k;
    public double v;
    public long ts;
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) public double w;
  }

  public static class Totals {
    public long n;
    public double s;
    public double m;
    @JsonInclude(JsonInclude.Include.NON_DEFAULT) public double w;

    Totals() {}

    Totals(long n, double s, double m, double w) {
      this.n = n;
      this.s = s;
      this.m = m;
      this.w = w;
    }

    Totals with(Input record) {
      return new Totals(n + 1, s + record.v, n == 0 ? record.v : Math.max(m, record.v), record.w);
    }
  }

  static <T> Serde<T> json(Class<T> type) {
    ObjectReader reader = JSON.readerFor(type);
    ObjectWriter writer = JSON.writerFor(type);
    return Serdes.serdeFrom(
        (topic, value) -> {
          try {
            return value == null ? null : writer.writeValueAsBytes(value);
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        },
        (topic, bytes) -> {
          if (STARTED.compareAndSet(false, true)) System.out.println("FIRST");
          try {
            return bytes == null ? null : reader.readValue(bytes);
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        });
  }

  static final Serde<Input> INPUT = json(Input.class);
  static final Serde<Totals> TOTALS = json(Totals.class);

  /** States are stored in 32 and 24 bytes, not as JSON. */
  static final Serde<Totals> TOTALS_STATE = Serdes.serdeFrom(
      (topic, a) -> a == null ? null
          : ByteBuffer.allocate(32).putLong(a.n).putDouble(a.s).putDouble(a.m).putDouble(a.w).array(),
      (topic, bytes) -> {
        if (bytes == null) return null;
        ByteBuffer b = ByteBuffer.wrap(bytes);
        return new Totals(b.getLong(), b.getDouble(), b.getDouble(), b.getDouble());
      });
  static final Serde<Input> INPUT_STATE = Serdes.serdeFrom(
      (topic, r) -> r == null ? null : ByteBuffer.allocate(24).putDouble(r.v).putLong(r.ts).putDouble(r.w).array(),
      (topic, bytes) -> {
        if (bytes == null) return null;
        ByteBuffer b = ByteBuffer.wrap(bytes);
        Input record = new Input();
        record.v = b.getDouble();
        record.ts = b.getLong();
        record.w = b.getDouble();
        return record;
      });

  /** A processor with one value per key in the store "state". */
  abstract static class WithState<S> implements Processor<String, Input, String, Totals> {
    ProcessorContext<String, Totals> context;
    KeyValueStore<String, S> state;

    @Override
    public void init(ProcessorContext<String, Totals> context) {
      this.context = context;
      this.state = context.getStateStore("state");
    }
  }

  /** A window of LAST records that is emptied when it is full. */
  static class TumblingCount extends WithState<Totals> {
    @Override
    public void process(Record<String, Input> record) {
      Totals before = state.get(record.key());
      Totals totals = (before == null ? new Totals() : before).with(record.value());
      if (totals.n < LAST) {
        state.put(record.key(), totals);
      } else {
        state.delete(record.key());
        context.forward(record.withValue(totals));
      }
    }
  }

  /** The last LAST values of the key, as a ring: [number: int][next place: int][values: LAST doubles]. */
  static class SlidingCount extends WithState<byte[]> {
    @Override
    public void process(Record<String, Input> record) {
      Input input = record.value();
      byte[] before = state.get(record.key());
      ByteBuffer ring = before == null ? ByteBuffer.allocate(8 + LAST * 8) : ByteBuffer.wrap(before);
      int place = ring.getInt(4);
      int n = Math.min(ring.getInt(0) + 1, LAST);
      ring.putDouble(8 + place * 8, input.v).putInt(0, n).putInt(4, (place + 1) % LAST);
      double s = 0;
      double m = input.v;
      for (int i = 0; i < n; i++) {
        double v = ring.getDouble(8 + i * 8);
        s += v;
        m = Math.max(m, v);
      }
      state.put(record.key(), ring.array());
      context.forward(record.withValue(new Totals(n, s, m, input.w)));
    }
  }

  /** The records of the key of the last SPAN, as pairs of time and value in the order of time, in which they arrive. */
  static class SlidingTime extends WithState<byte[]> {
    @Override
    public void process(Record<String, Input> record) {
      Input input = record.value();
      byte[] bytes = state.get(record.key());
      ByteBuffer before = ByteBuffer.wrap(bytes == null ? new byte[0] : bytes);
      int from = 0;
      while (from < before.capacity() && before.getLong(from) < input.ts - SPAN.toMillis()) from += 16;
      ByteBuffer pairs = ByteBuffer.allocate(before.capacity() - from + 16);
      pairs.put(before.array(), from, before.capacity() - from).putLong(input.ts).putDouble(input.v);
      int n = pairs.capacity() / 16;
      double s = 0;
      double m = input.v;
      for (int i = 0; i < n; i++) {
        double v = pairs.getDouble(i * 16 + 8);
        s += v;
        m = Math.max(m, v);
      }
      state.put(record.key(), pairs.array());
      context.forward(record.withValue(new Totals(n, s, m, input.w)));
    }
  }

  static void processed(StreamsBuilder builder, KStream<String, Input> records, Serde<?> serde,
      ProcessorSupplier<String, Input, String, Totals> processor, Produced<String, Totals> output) {
    StoreBuilder<?> store = Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("state"), Serdes.String(), serde)
        .withCachingEnabled();
    builder.addStateStore(store);
    records.process(processor, "state").to(System.getenv("OUTPUT"), output);
  }

  static StreamsBuilder topology() {
    StreamsBuilder builder = new StreamsBuilder();
    Consumed<String, Input> consumed = Consumed.with(Serdes.String(), INPUT);
    Produced<String, Totals> output = Produced.with(Serdes.String(), TOTALS);
    KStream<String, Input> records = builder.stream(System.getenv("INPUT"), consumed);
    switch (System.getenv("WORKLOAD")) {
      case "pass" ->
          records.mapValues(record -> record).to(System.getenv("OUTPUT"), Produced.with(Serdes.String(), INPUT));
      case "tumble" -> records.groupByKey(Grouped.with(Serdes.String(), INPUT))
          .windowedBy(TimeWindows.ofSizeWithNoGrace(SPAN))
          .aggregate(Totals::new, (key, record, totals) -> totals.with(record),
              Materialized.<String, Totals, WindowStore<Bytes, byte[]>>as("windows")
                  .withKeySerde(Serdes.String()).withValueSerde(TOTALS_STATE).withRetention(SPAN.multipliedBy(3)))
          .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
          .toStream((window, totals) -> window.key()).to(System.getenv("OUTPUT"), output);
      case "count" -> processed(builder, records, TOTALS_STATE, TumblingCount::new, output);
      case "slide" -> processed(builder, records, Serdes.ByteArray(), SlidingCount::new, output);
      case "slidetime" -> processed(builder, records, Serdes.ByteArray(), SlidingTime::new, output);
      case "join" -> records.join(builder.stream(System.getenv("SECOND_INPUT"), consumed),
          (left, right) -> new Totals(1, left.v + right.v, Math.max(left.v, right.v), right.w),
          JoinWindows.ofTimeDifferenceWithNoGrace(SPAN),
          StreamJoined.with(Serdes.String(), INPUT_STATE, INPUT_STATE)).to(System.getenv("OUTPUT"), output);
      default -> throw new IllegalArgumentException(System.getenv("WORKLOAD"));
    }
    return builder;
  }

  public static void main(String[] arguments) throws InterruptedException {
    Properties properties = new Properties();
    properties.put("application.id", System.getenv("RUN"));
    properties.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
    properties.put("state.dir", System.getenv("FOLDER"));
    properties.put("auto.offset.reset", "earliest");
    properties.put("num.stream.threads", "2");
    properties.put("producer.compression.type", "lz4");
    for (String argument : arguments) {
      String[] pair = argument.split("=", 2);
      properties.put(pair[0], pair[1]);
    }
    KafkaStreams streams = new KafkaStreams(topology().build(), properties);
    streams.setUncaughtExceptionHandler(error -> {
      error.printStackTrace();
      System.exit(3);
      return null;
    });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
    streams.start();
    Thread.currentThread().join();
  }
}
