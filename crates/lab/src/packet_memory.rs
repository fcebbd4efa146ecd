//! The memory of the packets that are in transit: chunks that fill up one after another, and are free again once no
//! packet in them is live.
//!
//! Packets leave nearly in the order in which they arrived, so a chunk empties as a whole. A chunk wastes at most the
//! room of one packet, whatever the sizes; with a short delay the same chunk is used again and again, warm in the cache.
//! Does not know: what is in a packet.

/// Size of a chunk. The end that is too short for the largest packet, 64 KiB, is 6 % of it.
pub const CHUNK: usize = 1 << 20;
/// Packets begin on cache lines.
const ALIGN: usize = 64;

/// Where a packet is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSlot {
    chunk: u32,
    offset: u32,
    length: u32,
}

impl PacketSlot {
    /// Where the next packet begins.
    fn end(self) -> usize {
        (self.offset as usize + self.length as usize).next_multiple_of(ALIGN)
    }
}

struct Chunk {
    bytes: Box<[u8]>,
    used: usize,
    live: u32,
}

/// All packets in transit. A packet that finds no room is dropped; the caller counts it.
pub struct PacketMemory {
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    current: Option<u32>,
    chunks_max: usize,
    largest: usize,
    peak: usize,
}

impl PacketMemory {
    /// Room for packets of at most `largest` bytes, `bytes_max` in all. The first `ready` bytes are touched at once, so
    /// that no packet waits for the kernel to find a page.
    pub fn new(largest: usize, bytes_max: u64, ready: u64) -> PacketMemory {
        assert!(largest <= CHUNK, "a packet fits a chunk");
        let chunks_max = usize::try_from(bytes_max / CHUNK as u64).unwrap_or(usize::MAX).max(1);
        let mut memory =
            PacketMemory { chunks: Vec::new(), free: Vec::new(), current: None, chunks_max, largest, peak: 0 };
        let ready = usize::try_from(ready.div_ceil(CHUNK as u64)).unwrap_or(chunks_max).min(chunks_max);
        for _ in 0..ready {
            memory.grow(1);
        }
        memory.free.reverse();
        memory
    }

    /// Adds a free chunk, filled with `fill`. A value other than 0 makes the kernel map its pages at once.
    fn grow(&mut self, fill: u8) {
        let number = self.chunks.len() as u32;
        self.chunks.push(Chunk { bytes: vec![fill; CHUNK].into_boxed_slice(), used: 0, live: 0 });
        self.free.push(number);
    }

    /// The room for the next packet, `largest` bytes; none where memory is full. [`PacketMemory::take`] takes it.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let fits = |chunk: &Chunk| chunk.bytes.len() - chunk.used >= self.largest;
        if self.current.is_none_or(|current| !fits(&self.chunks[current as usize])) {
            if self.free.is_empty() {
                if self.chunks.len() >= self.chunks_max {
                    return None;
                }
                self.grow(0);
            }
            self.current = self.free.pop();
            self.peak = self.peak.max(self.chunks.len() - self.free.len());
        }
        let chunk = &mut self.chunks[self.current? as usize];
        let end = chunk.used + self.largest;
        Some(&mut chunk.bytes[chunk.used..end])
    }

    /// Takes the first `length` bytes of the room for a packet.
    pub fn take(&mut self, length: usize) -> Option<PacketSlot> {
        let current = self.current?;
        let chunk = &mut self.chunks[current as usize];
        let slot = PacketSlot { chunk: current, offset: chunk.used as u32, length: length as u32 };
        let next = (chunk.used + length).next_multiple_of(ALIGN);
        if length > self.largest || next > CHUNK {
            return None;
        }
        chunk.used = next;
        chunk.live += 1;
        Some(slot)
    }

    /// Keeps only the first `length` bytes of a packet. The room behind them is used again if no packet has been taken
    /// since: a full queue always drops the end of the newest packet.
    pub fn shorten(&mut self, slot: PacketSlot, length: usize) -> PacketSlot {
        let length = length.min(slot.length as usize);
        let chunk = &mut self.chunks[slot.chunk as usize];
        if chunk.used == slot.end() {
            chunk.used = (slot.offset as usize + length).next_multiple_of(ALIGN);
        }
        PacketSlot { length: length as u32, ..slot }
    }

    /// Frees the room of a packet.
    pub fn release(&mut self, slot: PacketSlot) {
        let slot = self.shorten(slot, 0);
        let chunk = &mut self.chunks[slot.chunk as usize];
        chunk.live -= 1;
        if chunk.live == 0 {
            chunk.used = 0;
            if self.current != Some(slot.chunk) {
                self.free.push(slot.chunk);
            }
        }
    }

    /// The bytes of a packet.
    pub fn bytes(&self, slot: PacketSlot) -> &[u8] {
        let start = slot.offset as usize;
        &self.chunks[slot.chunk as usize].bytes[start..start + slot.length as usize]
    }

    /// The bytes of a packet, to be changed.
    pub fn bytes_mut(&mut self, slot: PacketSlot) -> &mut [u8] {
        let start = slot.offset as usize;
        &mut self.chunks[slot.chunk as usize].bytes[start..start + slot.length as usize]
    }

    /// The size of all chunks that hold packets, in bytes.
    pub fn in_use(&self) -> u64 {
        let empty = self.current.is_some_and(|current| self.chunks[current as usize].live == 0);
        ((self.chunks.len() - self.free.len() - usize::from(empty)) * CHUNK) as u64
    }

    /// The largest size of chunks in use so far, in bytes.
    pub fn peak(&self) -> u64 {
        (self.peak * CHUNK) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(memory: &mut PacketMemory, fill: u8, length: usize) -> Option<PacketSlot> {
        memory.room()?[..length].fill(fill);
        memory.take(length)
    }

    #[test]
    fn a_short_delay_needs_one_chunk() {
        let mut memory = PacketMemory::new(65_562, 8 << 20, 0);
        for n in 0..1_000u32 {
            let slot = put(&mut memory, n as u8, 60_000).unwrap();
            assert!(memory.bytes(slot).iter().all(|byte| *byte == n as u8));
            memory.release(slot);
        }
        assert_eq!((memory.peak(), memory.in_use()), (1 << 20, 0));
    }

    #[test]
    fn chunks_are_reused_and_bounded() {
        let mut memory = PacketMemory::new(65_562, 4 << 20, 2 << 20);
        for round in 0..3 {
            let mut slots = Vec::new();
            while let Some(slot) = put(&mut memory, round, 50_000) {
                slots.push(slot);
            }
            assert!(slots.len() >= 4 * 19, "{}", slots.len());
            assert!(slots.iter().all(|slot| memory.bytes(*slot) == [round; 50_000]));
            slots.drain(..).rev().for_each(|slot| memory.release(slot));
            assert_eq!(memory.in_use(), 0);
        }
        assert_eq!(memory.peak(), 4 << 20);
    }

    #[test]
    fn a_dropped_packet_takes_no_room() {
        let mut memory = PacketMemory::new(65_562, 64 << 20, 0);
        let mut kept = Vec::new();
        for n in 0..200 {
            let slot = put(&mut memory, n, 60_000).unwrap();
            match n % 4 {
                0 => kept.push((n, memory.shorten(slot, 30_000))),
                _ => memory.release(slot),
            }
        }
        assert!(memory.peak() <= 2 << 20, "{}", memory.peak());
        assert!(kept.iter().all(|(n, slot)| memory.bytes(*slot) == vec![*n; 30_000]));
        kept.drain(..).for_each(|(_, slot)| memory.release(slot));
        assert_eq!(memory.in_use(), 0);
    }

    #[test]
    fn waste_is_below_a_tenth() {
        let mut memory = PacketMemory::new(65_562, 64 << 20, 0);
        let packets = 500;
        assert!((0..packets).all(|_| put(&mut memory, 1, 65_562).is_some()));
        assert!(memory.peak() < packets * 65_562 * 11 / 10);
    }
}
