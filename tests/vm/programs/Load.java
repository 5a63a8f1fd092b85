// The protocol of load.c, in Java.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.function.LongSupplier;

public class Load {
    static String measure(LongSupplier clock, long calls, int resolutionNs) {
        long first = clock.getAsLong(), last = first, back = 0;
        for (long i = 1; i < calls; i++) {
            long now = clock.getAsLong();
            back += now < last ? 1 : 0;
            last = now;
        }
        return "[" + calls + "," + back + "," + first + "," + last + "," + resolutionNs + "]";
    }

    static final int BATCH = 1000;

    static String fastest(long calls) {
        long fastest = Long.MAX_VALUE;
        for (long batch = 0; batch < calls / BATCH; batch++) {
            long begin = System.nanoTime();
            for (int i = 1; i < BATCH; i++) {
                System.nanoTime();
            }
            fastest = Math.min(fastest, System.nanoTime() - begin);
        }
        return "[" + BATCH + "," + fastest + "]";
    }

    static long realtime() {
        return System.currentTimeMillis() * 1_000_000L;
    }

    public static void main(String[] arguments) throws IOException {
        var input = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            long calls = Long.parseLong(line);
            System.out.println("{\"monotonic\":" + measure(System::nanoTime, calls, 1)
                + ",\"realtime\":" + measure(Load::realtime, calls, 1_000_000)
                + ",\"batch\":" + fastest(calls) + "}");
        }
    }
}
