//! The simulator's records of one cell and its lines. The cell is the common one, or that of a CPU.

use core::cell::{Cell, RefCell};
use std::collections::HashMap;

use tickline_core::cell::WindowedLine;
use tickline_core::state::{LineState, Phase};

use crate::counts::Counts;
use crate::machine::Clocks;

/// The records of one cell and its lines.
#[derive(Debug, Default)]
pub(crate) struct CellRecord {
    /// This CPU's counter minus the machine's, ticks; 0 for the common cell.
    cpu_difference_ticks: i64,
    /// The largest ordered reading that is complete, ns; the least value if there is none.
    pub(crate) returned_ns: Cell<i64>,
    /// The cell's state.
    pub(crate) state: Cell<LineState>,
    /// The number of lives of each state in this cell.
    lives: RefCell<HashMap<LineState, u64>>,
    /// The state when the counter last started again, and when that was, ps.
    pub(crate) reset: Cell<Option<(LineState, u64)>>,
    /// The beginning of the iteration that published the line, ps.
    pub(crate) born_ps: Cell<u64>,
    /// The beginning of the iteration under way, ps.
    pub(crate) iteration_began_ps: Cell<u64>,
    /// For each line, by its start: the time of the oldest sample that its bounds rest on, ps.
    pub(crate) evidence: RefCell<HashMap<u64, u64>>,
    /// The start of the line that was published last, ticks.
    pub(crate) newest_start_ticks: Cell<u64>,
    /// The bound that this line states for Unix time, ns.
    pub(crate) unix_bound_ns: Cell<u64>,
    /// The last announcement of a replacement or a first publication, ps. The next line holds from
    /// then on.
    closed_ps: Cell<u64>,
    /// Each line by its state, and the time from which it holds, ps.
    pub(crate) by_state: RefCell<HashMap<LineState, (WindowedLine, u64)>>,
}

impl CellRecord {
    /// The records for cells whose counters differ from the machine's by these numbers of ticks.
    pub(crate) fn for_each(by_ticks: &[i64]) -> Vec<Self> {
        by_ticks
            .iter()
            .map(|&ticks| Self {
                cpu_difference_ticks: ticks,
                returned_ns: Cell::new(i64::MIN),
                ..Self::default()
            })
            .collect()
    }

    /// The number of lives of this state so far.
    pub(crate) fn lives(&self, state: LineState) -> u64 {
        self.lives.borrow().get(&state).copied().unwrap_or(0)
    }

    /// Records a swap of the cell's state to `to`.
    pub(crate) fn record_swap(&self, to: LineState, now_ps: u64, counts: &mut Counts) {
        self.state.set(to);
        let mut lives = self.lives.borrow_mut();
        let lives = lives.entry(to).or_default();
        counts.again += u64::from(*lives > 0);
        *lives += 1;
        match to.phase() {
            Phase::Published => self.born_ps.set(self.iteration_began_ps.get()),
            Phase::Replacing | Phase::FirstPublication => self.closed_ps.set(now_ps),
            Phase::NoLine => {}
        }
    }

    pub(crate) fn record_publication(&self, line: &WindowedLine, unix_bound_ns: u64) {
        self.unix_bound_ns.set(unix_bound_ns);
        self.newest_start_ticks.set(line.start_ticks);
        self.by_state
            .borrow_mut()
            .insert(line.state, (*line, self.closed_ps.get()));
    }

    /// The time at which this CPU's counter was at `ticks`, ps.
    pub(crate) fn time_ps(&self, clocks: &Clocks, ticks: u64) -> u64 {
        clocks
            .counter
            .time_ps(ticks.wrapping_add_signed(-self.cpu_difference_ticks))
    }
}
