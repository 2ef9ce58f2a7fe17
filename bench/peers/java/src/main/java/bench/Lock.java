package bench;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** One of Redisson's locks. */
interface Lock {
    /** As long as the watchdog's lease. */
    long LEASE_S = 30;

    /** Waits until it is held; the answer is what release wants. */
    String acquire() throws InterruptedException;

    void release(String held);

    static Lock of(String subject, RedissonClient client, String key, boolean isWriter) {
        return switch (subject) {
            case "redisson" -> of(client.getLock(key));
            case "redisson-read" -> {
                var both = client.getReadWriteLock(key);
                yield of(isWriter ? both.writeLock() : both.readLock());
            }
            case "redisson-permits" -> permits(client.getPermitExpirableSemaphore(key));
            case "redisson-2-keys" -> {
                RLock one = client.getLock("{" + key + "}-a");
                yield of(client.getMultiLock(one, client.getLock("{" + key + "}-b")));
            }
            default -> throw new IllegalArgumentException("there is no subject " + subject);
        };
    }

    private static Lock of(RLock lock) {
        return new Lock() {
            @Override
            public String acquire() {
                lock.lock();
                return null;
            }

            @Override
            public void release(String held) {
                lock.unlock();
            }
        };
    }

    private static Lock permits(RPermitExpirableSemaphore semaphore) {
        semaphore.trySetPermits(3);
        return new Lock() {
            @Override
            public String acquire() throws InterruptedException {
                return semaphore.acquire(LEASE_S, TimeUnit.SECONDS);
            }

            @Override
            public void release(String held) {
                semaphore.release(held);
            }
        };
    }
}
