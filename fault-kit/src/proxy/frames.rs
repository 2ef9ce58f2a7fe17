//! Reads a half of a connection frame by frame, and writes one packet by packet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::resp::frame_len;
use super::shared::{Cut, Shared};

pub struct Frames<'a> {
    half: ReadHalf<'a>,
    buffer: Vec<u8>,
    /// From here on the bytes are no frames: a replica copies its master.
    is_copy: &'a AtomicBool,
}

impl<'a> Frames<'a> {
    pub fn new(half: ReadHalf<'a>, is_copy: &'a AtomicBool) -> Self {
        Frames { half, buffer: Vec::new(), is_copy }
    }

    /// The next whole frame, or whatever came of a copy; `None` at the end of the stream. Cancel
    /// safe.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if self.is_copy.load(Ordering::Relaxed) && !self.buffer.is_empty() {
                return Some(std::mem::take(&mut self.buffer));
            }
            if let Some(length) = frame_len(&self.buffer) {
                let rest = self.buffer.split_off(length);
                return Some(std::mem::replace(&mut self.buffer, rest));
            }
            match self.half.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

/// Bytes on their way, when they are due, and whether the connection ends behind them.
pub struct Packet {
    due: Instant,
    bytes: Vec<u8>,
    end: Option<Cut>,
}

impl Packet {
    pub fn new(bytes: Vec<u8>, delay: Duration) -> Packet {
        Packet { due: Instant::now() + delay, bytes, end: None }
    }

    pub fn last(bytes: Vec<u8>, end: Cut) -> Packet {
        Packet { due: Instant::now(), bytes, end: Some(end) }
    }
}

/// Delivers packets in order and on time until the queue is closed and empty.
///
/// A peer that is gone swallows its packets: what the other direction still has on its way must
/// arrive, as it does when a client sends a command and closes its socket at once.
pub async fn deliver(
    mut queue: UnboundedReceiver<Packet>,
    mut half: WriteHalf<'_>,
    shared: &Shared,
) -> Result<(), Cut> {
    let mut flowing = shared.flowing.subscribe();
    while let Some(packet) = queue.recv().await {
        tokio::time::sleep_until(packet.due).await;
        let _ = flowing.wait_for(|flowing| *flowing).await;
        let piece = if shared.rules().byte_by_byte { 1 } else { packet.bytes.len().max(1) };
        for bytes in packet.bytes.chunks(piece) {
            shared.writes.fetch_add(1, Ordering::Relaxed);
            let _ = half.write_all(bytes).await;
            if piece < packet.bytes.len() {
                tokio::task::yield_now().await;
            }
        }
        if let Some(end) = packet.end {
            return Err(end);
        }
    }
    Ok(())
}
