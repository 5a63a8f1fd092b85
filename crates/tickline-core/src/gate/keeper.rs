//! Keeps a clock's gate: what the last judgement said, the program's switch, and who judges next.
//!
//! It decides nothing about the counter; that is [`judge`](super::judge)'s business. It orders what threads do that switch the
//! counter off and on, ask for another judgement, and judge.

use crate::primitive::{AtomicI64, AtomicU64, Ordering};

/// What a closed gate stops: whatever serves readings from the counter.
pub trait Gated {
    /// Closes the gate. When this returns, no reading that begins later uses the counter, until [`open`](Self::open).
    fn close(&self);

    /// Opens the gate: lines may be published again.
    fn open(&self);
}

/// How far the judgement of a clock has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It is to be judged before the next line.
    New,
    /// Every gate is open.
    Open,
    /// A gate is closed.
    Closed,
}

/// What a judgement comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// Every gate is open.
    Open,
    /// A gate is closed for a reason that passes by itself: judge again at this time, ns.
    Waiting(i64),
    /// A gate is closed until something asks for another judgement.
    Closed,
}

const STAGE_NEW: u64 = 0;
const STAGE_OPEN: u64 = 1;
const STAGE_CLOSED: u64 = 2;

/// See the [module](self).
#[derive(Debug)]
pub struct Keeper {
    /// One of the `STAGE_` constants.
    stage: AtomicU64,
    /// Whether `disable()` is in force.
    disabled: AtomicU64,
    /// When the next round is due, or with a gate closed the next judgement, ns.
    due_ns: AtomicI64,
}

impl Default for Keeper {
    fn default() -> Self {
        Self::new()
    }
}

impl Keeper {
    /// Nothing is judged yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            stage: AtomicU64::new(STAGE_NEW),
            disabled: AtomicU64::new(0),
            due_ns: AtomicI64::new(i64::MIN),
        }
    }

    /// How far the judgement has come.
    #[must_use]
    pub fn stage(&self) -> Stage {
        // ORDERING: Acquire, pairs with the stores of `stage`.
        match self.stage.load(Ordering::Acquire) {
            STAGE_NEW => Stage::New,
            STAGE_OPEN => Stage::Open,
            _ => Stage::Closed,
        }
    }

    /// Whether it is time for another round, or, with a gate closed, for another judgement.
    #[must_use]
    pub fn is_due(&self, now_ns: i64) -> bool {
        // ORDERING: Relaxed, a hint.
        now_ns >= self.due_ns.load(Ordering::Relaxed)
    }

    /// Says when the next round is due, ns.
    pub fn set_due(&self, due_ns: i64) {
        // ORDERING: Relaxed, as in `is_due`.
        self.due_ns.store(due_ns, Ordering::Relaxed);
    }

    /// For the holder of the clock's lock: whether a round may be done, with the gates judged if nobody has. `known`: whether the
    /// holder has what a judgement leaves behind.
    pub fn admit(
        &self,
        gated: &impl Gated,
        known: bool,
        now_ns: impl FnOnce() -> i64,
        judge: impl FnOnce() -> Conclusion,
    ) -> bool {
        if self.stage() == Stage::Closed {
            // Only a reason that passes by itself is ever due again.
            if self.is_disabled() || !self.is_due(now_ns()) {
                return false;
            }
            self.reconsider(gated);
        }
        if self.stage() == Stage::Open && known {
            return true;
        }
        let due_ns = match judge() {
            Conclusion::Open => {
                // ORDERING: SeqCst, with `apply_switch`: either this sees the flag below, or that closes the stage after this.
                self.stage.store(STAGE_OPEN, Ordering::SeqCst);
                if self.is_disabled() {
                    self.apply_switch(gated);
                    return false;
                }
                return true;
            }
            Conclusion::Waiting(due_ns) => due_ns,
            Conclusion::Closed => i64::MAX,
        };
        self.set_due(due_ns);
        self.close(gated);
        if self.is_disabled() {
            self.apply_switch(gated); // in case it was enabled meanwhile
        }
        false
    }

    /// Ends the present line, and has the gates judged again before the next one.
    pub fn judge_again(&self, gated: &impl Gated) {
        self.close(gated);
        self.apply_switch(gated);
    }

    /// Switches the counter off: no reading that begins after this has returned uses it.
    pub fn disable(&self, gated: &impl Gated) {
        // ORDERING: SeqCst, with `apply_switch`.
        self.disabled.store(1, Ordering::SeqCst);
        self.apply_switch(gated);
    }

    /// Switches the counter on again, and has the gates judged before the next line.
    pub fn enable(&self, gated: &impl Gated) {
        // ORDERING: SeqCst, with `apply_switch`.
        self.disabled.store(0, Ordering::SeqCst);
        self.apply_switch(gated);
    }

    /// Whether the counter is switched off.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        // ORDERING: SeqCst, with the stores in `disable` and `enable`, and those of `stage`.
        self.disabled.load(Ordering::SeqCst) != 0
    }

    fn close(&self, gated: &impl Gated) {
        // ORDERING: SeqCst, with `admit` and `apply_switch`, see there.
        self.stage.store(STAGE_CLOSED, Ordering::SeqCst);
        gated.close();
    }

    /// Brings stage and gate in line with the switch, and looks again: whoever was the last to turn it, or to look, leaves
    /// them as it is.
    fn apply_switch(&self, gated: &impl Gated) {
        loop {
            let disabled = self.is_disabled();
            if disabled {
                self.set_due(i64::MAX);
                self.close(gated);
            } else {
                self.reconsider(gated);
            }
            if self.is_disabled() == disabled {
                return;
            }
        }
    }

    /// Lets the gates be judged again before the next line.
    fn reconsider(&self, gated: &impl Gated) {
        self.set_due(i64::MIN);
        // ORDERING: SeqCst, with `admit` and `apply_switch`, see there.
        self.stage.store(STAGE_NEW, Ordering::SeqCst);
        gated.open();
    }
}
