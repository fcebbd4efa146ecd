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
    /// Room for packets of at most `largest` bytes, `bytes_max` in all; the first `ready` of them touched already, so
    /// that no packet waits for the kernel to find a page.
    pub fn new(largest: usize, bytes_max: u64, ready: u64) -> PacketMemory {
        assert!(largest <= CHUNK, "a packet fits a chunk");
        let chunks_max = usize::try_from(bytes_max / CHUNK as u64).unwrap_or(usize::MAX).max(1);
        let mut arena =
            PacketMemory { chunks: Vec::new(), free: Vec::new(), current: None, chunks_max, largest, peak: 0 };
        let ready = usize::try_from(ready.div_ceil(CHUNK as u64)).unwrap_or(chunks_max).min(chunks_max);
        for _ in 0..ready {
            arena.grow(1);
        }
        arena.free.reverse();
        arena
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
        let place = PacketSlot { chunk: current, offset: chunk.used as u32, length: length as u32 };
        let next = (chunk.used + length).next_multiple_of(ALIGN);
        if length > self.largest || next > CHUNK {
            return None;
        }
        chunk.used = next;
        chunk.live += 1;
        Some(place)
    }

    /// Keeps only the first `length` bytes of a packet. The room behind them is used again if no packet has been taken
    /// since: a full queue always drops the end of the newest packet.
    pub fn shorten(&mut self, place: PacketSlot, length: usize) -> PacketSlot {
        let length = length.min(place.length as usize);
        let chunk = &mut self.chunks[place.chunk as usize];
        if chunk.used == place.end() {
            chunk.used = (place.offset as usize + length).next_multiple_of(ALIGN);
        }
        PacketSlot { length: length as u32, ..place }
    }

    /// Frees the room of a packet.
    pub fn release(&mut self, place: PacketSlot) {
        let place = self.shorten(place, 0);
        let chunk = &mut self.chunks[place.chunk as usize];
        chunk.live -= 1;
        if chunk.live == 0 {
            chunk.used = 0;
            if self.current != Some(place.chunk) {
                self.free.push(place.chunk);
            }
        }
    }

    /// The bytes of a packet.
    pub fn bytes(&self, place: PacketSlot) -> &[u8] {
        let start = place.offset as usize;
        &self.chunks[place.chunk as usize].bytes[start..start + place.length as usize]
    }

    /// The bytes of a packet, to be changed.
    pub fn bytes_mut(&mut self, place: PacketSlot) -> &mut [u8] {
        let start = place.offset as usize;
        &mut self.chunks[place.chunk as usize].bytes[start..start + place.length as usize]
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

    fn put(arena: &mut PacketMemory, fill: u8, length: usize) -> Option<PacketSlot> {
        arena.room()?[..length].fill(fill);
        arena.take(length)
    }

    #[test]
    fn a_short_line_stays_in_one_chunk() {
        let mut arena = PacketMemory::new(65_562, 8 << 20, 0);
        for n in 0..1_000u32 {
            let place = put(&mut arena, n as u8, 60_000).unwrap();
            assert!(arena.bytes(place).iter().all(|byte| *byte == n as u8));
            arena.release(place);
        }
        assert_eq!((arena.peak(), arena.in_use()), (1 << 20, 0));
    }

    #[test]
    fn chunks_come_back_and_the_bound_holds() {
        let mut arena = PacketMemory::new(65_562, 4 << 20, 2 << 20);
        for round in 0..3 {
            let mut places = Vec::new();
            while let Some(place) = put(&mut arena, round, 50_000) {
                places.push(place);
            }
            assert!(places.len() >= 4 * 19, "{}", places.len());
            assert!(places.iter().all(|place| arena.bytes(*place) == [round; 50_000]));
            places.drain(..).rev().for_each(|place| arena.release(place));
            assert_eq!(arena.in_use(), 0);
        }
        assert_eq!(arena.peak(), 4 << 20);
    }

    #[test]
    fn what_is_dropped_at_once_takes_no_room() {
        let mut arena = PacketMemory::new(65_562, 64 << 20, 0);
        let mut kept = Vec::new();
        for n in 0..200 {
            let place = put(&mut arena, n, 60_000).unwrap();
            match n % 4 {
                0 => kept.push((n, arena.shorten(place, 30_000))),
                _ => arena.release(place),
            }
        }
        assert!(arena.peak() <= 2 << 20, "{}", arena.peak());
        assert!(kept.iter().all(|(n, place)| arena.bytes(*place) == vec![*n; 30_000]));
        kept.drain(..).for_each(|(_, place)| arena.release(place));
        assert_eq!(arena.in_use(), 0);
    }

    #[test]
    fn waste_is_below_a_tenth() {
        let mut arena = PacketMemory::new(65_562, 64 << 20, 0);
        let packets = 500;
        assert!((0..packets).all(|_| put(&mut arena, 1, 65_562).is_some()));
        assert!(arena.peak() < packets * 65_562 * 11 / 10);
    }
}
