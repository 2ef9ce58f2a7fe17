package bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** What the lock protects: three words in a file, read and then written. */
final class Cell {
    private final FileChannel file;

    Cell(String path) throws IOException {
        file = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE);
    }

    /** The counter, the last worker plus 1, and when it ended. */
    long[] read() throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
        file.read(bytes, 0);
        return new long[] {bytes.getLong(0), bytes.getLong(8), bytes.getLong(16)};
    }

    void write(long... words) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
        for (long word : words) {
            bytes.putLong(word);
        }
        file.write(bytes.flip(), 0);
    }
}
