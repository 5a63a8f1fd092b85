//! A trace in Perfetto's own format: a list of packets in Protocol Buffers
//! (<https://perfetto.dev/docs/reference/trace-packet-proto>).
//!
//! The packets of a thread are a sequence. A sequence has a clock of its own, whose times are
//! differences to the packet before; a default track, which is the thread's; and the names that its
//! packets refer to by number. All packets of requests are one more sequence, whose events name
//! their tracks. So are the CPU times:
//!
//! ```text
//! process --+-- thread --+-- CPU time   (a track for each thread; a counter, on request)
//!           +-- request --+-- span      (for spans that overlap: see `span_tracks.rs`)
//!           +-- counter
//! ```
//!
//! The first packet of a sequence says that it needs no packets before it. So a file that lacks its
//! end can be read up to the last whole packet.

pub(crate) mod clocks;
mod encoder;
mod names;
mod proto;
mod track_event;
mod values;

use core::time::Duration;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use clocks::ClockReadings;
use encoder::Encoder;
use names::Callsites;

use super::json::BUFFER;
use super::mark::Mark;
use crate::trace::readout::cpu_times::ThreadCpuTime;
use crate::trace::readout::span_tracks::Attempt;
use crate::trace::rings::record::Record;

/// The time after which the clocks are read again, because they are slewed. Perfetto's own recorder
/// does it as often.
const READ_CLOCKS_EVERY: Duration = Duration::from_secs(10);

/// Writes a trace.
pub(crate) struct Trace<W: Write> {
    output: W,
    encoder: Encoder,
    callsites: Callsites,
    /// When the clocks were read last; `None` for the trace of another process.
    clocks_read: Option<Instant>,
    packing: Packing,
}

/// How the packets are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    /// Blocks of packets, each compressed, and in a packet of its own.
    #[cfg(feature = "compression")]
    Compressed,
}

impl Packing {
    /// The number of bytes that are enough for a write, or for a compressed block.
    const fn block(self) -> usize {
        match self {
            Self::Plain => BUFFER,
            #[cfg(feature = "compression")]
            Self::Compressed => compression::BLOCK,
        }
    }
}

impl<W: Write> Trace<W> {
    /// Begins the trace of a process.
    pub(crate) fn begin(
        output: W,
        process: u32,
        name: &str,
        readings: &ClockReadings,
        packing: Packing,
    ) -> io::Result<Self> {
        let mut trace = Self {
            output,
            encoder: Encoder::begin(process, name, readings),
            callsites: Callsites::default(),
            clocks_read: (*readings != ClockReadings::unknown()).then(Instant::now),
            packing,
        };
        trace.put()?;
        Ok(trace)
    }

    /// Writes the name of a thread.
    pub(crate) fn write_name(&mut self, thread: u64, name: &str) -> io::Result<()> {
        self.encoder.name_thread(thread, name);
        self.put()
    }

    /// Writes a `record`, unless viewers do not need its kind. `names` finds a callsite's names.
    /// Returns how many values of its fields are cut; `None` for the end of a span that must wait
    /// for another record.
    #[inline]
    pub(crate) fn write(
        &mut self,
        thread: u64,
        record: &Record<'_>,
        names: impl FnOnce(usize) -> Option<Arc<str>>,
        attempt: Attempt,
    ) -> io::Result<Option<u64>> {
        let cut_before = self.encoder.cut_values;
        let fields = &mut self.encoder.names;
        let callsite = self.callsites.get(record.callsite, names, fields);
        if !self.encoder.record(thread, record, callsite, attempt) {
            return Ok(None);
        }
        self.put()?;
        Ok(Some(self.encoder.cut_values - cut_before))
    }

    /// Writes a mark.
    pub(crate) fn write_mark(&mut self, mark: Mark) -> io::Result<()> {
        self.encoder.mark(mark);
        self.put()
    }

    /// Writes a value of a thread's CPU time.
    pub(crate) fn write_cpu_time(&mut self, thread: u64, time: ThreadCpuTime) -> io::Result<()> {
        self.encoder.cpu_time(thread, time);
        self.put()
    }

    /// Passes the packets so far to the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self
            .clocks_read
            .is_some_and(|read| read.elapsed() >= READ_CLOCKS_EVERY)
        {
            self.clocks_read = Some(Instant::now());
            ClockReadings::now().push(&mut self.encoder.bytes);
        }
        self.write_block()?;
        self.output.flush()
    }

    /// Writes the present packets, if they are enough.
    #[inline]
    fn put(&mut self) -> io::Result<()> {
        if self.encoder.bytes.0.len() < self.packing.block() {
            return Ok(());
        }
        self.write_block()
    }

    fn write_block(&mut self) -> io::Result<()> {
        let packets = &mut self.encoder.bytes.0;
        #[cfg(feature = "compression")]
        if self.packing == Packing::Compressed {
            compression::compress(packets)?;
        }
        self.output.write_all(packets)?;
        packets.clear();
        Ok(())
    }
}

#[cfg(feature = "compression")]
mod compression {
    use std::io::{self, Write};
    use std::mem;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::proto::{Bytes, packet, trace};

    /// The number of bytes that are compressed together, unless a flush comes before. A larger
    /// block saves little: deflate looks back 32 KiB.
    pub(super) const BLOCK: usize = 1 << 18;

    /// Replaces packets by one packet that contains them.
    pub(super) fn compress(packets: &mut Vec<u8>) -> io::Result<()> {
        if packets.is_empty() {
            return Ok(());
        }
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(packets)?;
        let compressed = encoder.finish()?;
        let mut bytes = Bytes(mem::take(packets));
        bytes.0.clear();
        let packet = bytes.begin(trace::PACKET);
        bytes.bytes(packet::COMPRESSED_PACKETS, &compressed);
        bytes.end(packet);
        *packets = bytes.0;
        Ok(())
    }
}
