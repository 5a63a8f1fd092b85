//! Forked children of a process that reads a page.

use tickline_page::lease::{
    Attachment, PageReading, PageSource, ProcessHighWater, Timescale, read, read_forked,
};

use super::{Access, Pending, Script, World};

/// The most readings of a child before its parent forks the next one.
const MAX_READINGS: u32 = 4;

/// A child that is not attached keeps the order for this long after its first reading, ns, however
/// far a suspend or a slew has moved the page above the OS clock (rule R11).
const IN_ORDER_NS: i64 = 2_000_000_000;

impl World {
    /// An actor that is one forked child after another, of a process whose high-water mark is
    /// `parent`. Each child is in its parent's time namespace, and has to find that out.
    pub(super) fn children(
        &'static self,
        actor: usize,
        parent: &'static ProcessHighWater,
    ) -> Script {
        Script::new(move |yielder| {
            let access = Access::new(self, yielder, actor);
            loop {
                let mark = ProcessHighWater::new();
                let attachment = Attachment::default();
                mark.raise(parent.ns());
                self.counts.borrow_mut().forked += 1;
                let mut promised_ns = i64::MAX;
                let readings = self.rng.borrow_mut().u32(1..=MAX_READINGS);
                for _ in 0..readings {
                    access.step(Pending::Memory);
                    let before = (self.line_ns.get(), self.os_ns.get());
                    if before.0.max(before.1) > promised_ns {
                        break;
                    }
                    let PageReading { ns, source } = if attachment.is_attached() {
                        read(&access, &access, &access, &mark, Timescale::Monotonic)
                    } else {
                        read_forked(&access, &access, &access, &mark, &attachment)
                    };
                    if attachment.is_attached() {
                        promised_ns = i64::MAX;
                    } else {
                        promised_ns = promised_ns.min(ns.saturating_add(IN_ORDER_NS));
                        self.counts.borrow_mut().by_unattached += 1;
                    }
                    let source = if ns == mark.ns() {
                        PageSource::Os
                    } else {
                        source
                    };
                    self.judge(ns, source, before);
                    // Until it is attached, a child returns the OS clock where that is above the
                    // line. That is an exception of the promise (machine/docs/lease.md), so later
                    // readings of others are not compared with it.
                    if self.is_os_below_lines.get() {
                        self.record(ns, source);
                    }
                }
            }
        })
    }
}
