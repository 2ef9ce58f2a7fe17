package bench;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Workers on Redisson. The protocol with the harness is described in bench/src/plan.rs. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        Gson json = new Gson();
        Plan plan = json.fromJson(arguments[0], Plan.class);
        RedissonClient client = connect(plan);
        Cell cell = plan.cell == null ? null : new Cell(plan.cell);
        List<Worker> workers = new ArrayList<>();
        for (int n = 0; n < plan.tasks; n++) {
            if (plan.client_each && n > 0) {
                client = connect(plan);
            }
            workers.add(new Worker(plan, plan.first_worker + n, client, cell));
        }
        long warm = System.nanoTime() + (long) (plan.warm_up_s * 1e9);
        all(workers, worker -> worker.warmUp(warm));
        System.out.println("ready");
        String line = new BufferedReader(new InputStreamReader(System.in)).readLine();
        Answer answer = new Answer();
        if (plan.is_open) {
            OpenLoop open = new OpenLoop(plan, json.fromJson(line, OpenLoop.Start.class));
            all(workers, worker -> open.generate(worker, workers.indexOf(worker)));
            answer.arrivals.addAll(open.finish());
        } else {
            long until = System.nanoTime() + (long) (plan.seconds * 1e9);
            all(workers, worker -> worker.work(until));
        }
        for (Worker worker : workers) {
            answer.workers.add(worker.tally);
            if (worker.isWriter()) {
                answer.write_waits.addAll(worker.spans);
            } else {
                answer.read_holds.addAll(worker.spans);
                answer.wait.merge(worker.wait);
            }
            answer.cycle.merge(worker.cycle);
            answer.passed.merge(worker.passed);
        }
        System.out.println(json.toJson(answer));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static RedissonClient connect(Plan plan) {
        Config config = new Config();
        config.useSingleServer().setAddress(plan.url);
        return Redisson.create(config);
    }

    private static void all(List<Worker> workers, Consumer<Worker> work) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (Worker worker : workers) {
            Thread thread = new Thread(() -> work.accept(worker));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
