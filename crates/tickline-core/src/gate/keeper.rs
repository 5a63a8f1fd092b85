//! The keeper of a clock's judgement. It stores the judgement's stage, the program's switch, and
//! whether the clock has one line for all CPUs or one for each; and it bars and unbars the clock.
//!
//! Several threads may at the same time switch the counter off and on, ask for a judgement, and
//! judge. The keeper puts their actions in order. It makes no verdict: [`judge`](super::judge)
//! does, by the facts. The holder of the clock's lock begins a judgement, and gets a
//! [`Ticket`](crate::driver::Ticket), which keeps the word as it was then. The steps are:
//!
//! ```text
//! facts -> verdicts -> grounds -> decision -> settle -> permit
//! ```
//!
//! | step | is | for example |
//! |---|---|---|
//! | facts | what is known of the machine and the settings | the clocksource is `tsc` |
//! | verdicts | whether each gate is open, and else the reason | each is open |
//! | grounds | the reason of the first closed gate, the reason why Unix time comes from the OS clock, the clocksource | no reason; `tsc` |
//! | decision | every gate is open, or one is closed ([`Decision`]) | [`Decision::Open`] |
//! | settle | the keeper bars or unbars the clock, and the word says the [`Stage`] | unbarred; `Open` |
//! | permit | the right to run iterations | the first one publishes a line |
//!
//! While the kernel still checks the counter (`tsc-early`), a gate is closed for a reason that
//! passes by itself. The word says `Waiting`, and another judgement follows.
//!
//! From time to time (a clock's thread: once in each interval) the driver takes a ticket for a
//! review, and looks for changed facts. If there are any, it judges again. On the same grounds it
//! drops the ticket, and the line stays in use. On other grounds it settles the ticket, which ends
//! the line.
//!
//! One word holds the state:
//!
//! ```text
//! 63                 4         3             2         1   0
//! [ count of changes | a line for each CPU | switched off | stage ]
//! ```
//!
//! | [`Stage`] | the clock | the next action |
//! |---|---|---|
//! | `Unjudged` | barred or not, but no thread publishes | the next holder of the clock's lock judges |
//! | `Open` | not barred | the holder of the lock runs iterations |
//! | `Waiting` | barred | the holder of the lock judges when that is due |
//! | `Closed` | barred | a call asks for another judgement |
//! | `Disabled` | barred | a call switches the counter on |
//!
//! Three rules:
//!
//! - **K1. `disable` and `request_judgement` change the word, then bar the clock.** `enable`,
//!   `set_line_kind` and `request_judgement_if_open` only change the word. The caller of the last
//!   one has found the clock barred, or has barred it. In the stage `Open`, switching on only
//!   raises the count.
//! - **K2. Only the holder of a ticket unbars the clock.** The [`Ticket`](crate::driver::Ticket)
//!   holds the clock's lock until it is settled. To settle it, its holder unbars the clock, then
//!   exchanges the word with which the judgement began for `Open`. Only then may a line be
//!   published. A change before the exchange makes the exchange fail: the holder bars the clock
//!   again, and another judgement follows. A thread that makes a change after the exchange finds
//!   the clock unbarred, and bars it (K1).
//! - **K3. A clock that is barred late is judged again.** A thread that is stopped between its
//!   change and the call that bars the clock may bar a clock that has since been judged and
//!   unbarred. The next iteration finds the clock barred, and has the gates judged again
//!   (`request_judgement_if_open`). So does an iteration in a process that was forked in between.
//!
//! It follows that no reading that begins after [`disable`] has returned uses the counter, until
//! the program calls [`enable`]. And once the changes have ended, the next judgement makes the
//! clock agree with the switch and the facts.
//!
//! **To settle a review, or a judgement for the CPUs' lines, the keeper bars the clock first.**
//! This ends the line of the earlier judgement. If the word said `Open` and the gates are found
//! open again, a concurrent [`enable`] does not void the judgement: both want lines.
//!
//! **Only the word bars the CPUs' lines.** `bar` and `unbar` act on the common line's state.
//! Readers use the CPUs' lines while the word says `Open` and a line for each CPU
//! ([`usable_line_kind`]). A call that changes the kind of lines ([`set_line_kind`]) asks for a
//! judgement, because the gate that compares the counters depends on the kind. This call leaves a
//! common line in use. The holder of the ticket ends the common line before readers find the CPUs'
//! lines. No thread publishes another common line meanwhile, because an iteration needs the clock's
//! lock, which the ticket holds.
//!
//! [`disable`]: crate::driver::DrivenClock::disable
//! [`enable`]: crate::driver::DrivenClock::enable
//! [`set_line_kind`]: crate::driver::DrivenClock::set_line_kind
//! [`usable_line_kind`]: crate::driver::DrivenClock::usable_line_kind
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | Unbarring the clock in `enable` | a thread that is stopped inside `enable` could unbar a clock that `disable` has barred meanwhile |
//! | A second word for the kind of lines | between the changes of the two words the clock may be barred, or a reader may begin an iteration that was judged for the other kind |

use crate::cell::StateCell;
use crate::control::INTERVAL_RANGE_NS;
use crate::counter::Counter;
use crate::primitive::{AtomicI64, AtomicU64, Ordering};
use crate::reference::{Reference, Resolutions};
use crate::shared::Access;

/// Bars the clock of `access`: no reading that begins later uses the counter, until [`unbar`].
/// There is no access on a machine without a counter, whose clocks never have a line.
fn bar<S: StateCell>(access: Option<&Access<'_, S, impl Counter, impl Reference>>) {
    if let Some(access) = access {
        access.shared.bar(access.counter, access.reference);
    }
}

/// Unbars the clock of `access`: lines may be published again.
fn unbar<S: StateCell>(access: Option<&Access<'_, S, impl Counter, impl Reference>>) {
    if let Some(access) = access {
        access.shared.unbar(access.counter, access.reference);
    }
}

/// The stage of a clock's judgement. A driver must handle every stage, so another one is a breaking
/// change.
///
/// ```
/// use tickline_core::cell::LineCell;
/// use tickline_core::driver::DrivenClock;
/// use tickline_core::gate::keeper::Stage;
/// use tickline_core::shared::SharedClock;
///
/// let clock = DrivenClock::new(SharedClock::new(LineCell::new()));
/// assert_eq!(clock.stage(), Stage::Unjudged);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The gates must be judged before the next line.
    Unjudged,
    /// Every gate is open.
    Open,
    /// A gate is closed for a reason that passes by itself.
    Waiting,
    /// A gate is closed.
    Closed,
    /// The program has switched the counter off.
    Disabled,
}

impl Stage {
    /// Whether a gate is closed.
    #[must_use]
    pub const fn is_closed(self) -> bool {
        !matches!(self, Self::Unjudged | Self::Open)
    }
}

/// The kind of lines that a clock has. Another kind is a breaking change, as another [`Stage`] is.
///
/// ```
/// use tickline_core::cell::LineCell;
/// use tickline_core::driver::DrivenClock;
/// use tickline_core::gate::keeper::LineKind;
/// use tickline_core::shared::SharedClock;
///
/// let clock = DrivenClock::new(SharedClock::new(LineCell::new()));
/// clock.set_line_kind(LineKind::PerCpu);
/// assert_eq!(clock.usable_line_kind(), None, "no gate is judged yet");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// One for all CPUs.
    Common,
    /// One for each CPU: see [`per_cpu`](crate::per_cpu).
    PerCpu,
}

/// What a judgement has decided: the driver's answer to a [`Ticket`](crate::driver::Ticket).
///
/// ```
/// use tickline_core::gate::keeper::Decision;
/// use tickline_core::reference::{ReferenceKind, Resolutions};
///
/// /// The decision of a driver whose counter runs once the crystal is stable.
/// fn decide(is_stable: bool, now_ns: i64) -> Decision {
///     if is_stable {
///         Decision::Open {
///             resolutions: Resolutions::new(1, 1, ReferenceKind::Independent),
///             serves_unix_time: false,
///         }
///     } else {
///         Decision::Closed { retry_at_ns: Some(now_ns + 1_000_000) }
///     }
/// }
/// assert_eq!(decide(false, 7), Decision::Closed { retry_at_ns: Some(1_000_007) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Every gate is open. The control loop begins anew, with these settings.
    Open {
        /// The resolutions of the counter and of the reference.
        resolutions: Resolutions,
        /// Whether the lines serve Unix time.
        serves_unix_time: bool,
    },
    /// A gate is closed.
    Closed {
        /// When to judge again, ns, if the reason passes by itself. `None`: a call must ask for
        /// another judgement.
        retry_at_ns: Option<i64>,
    },
}

/// The keeper's part of a [`Ticket`](crate::driver::Ticket). The judgement counts if the word is
/// unchanged when it is settled. The holder of the clock's lock drops it if it has no facts yet, or
/// if they have not changed; then nothing happens, and another judgement may begin.
#[derive(Debug)]
pub(crate) struct BegunJudgement {
    /// The word at the beginning of the judgement.
    word: u64,
    /// Whether the gates are judged again, because facts have changed.
    is_review: bool,
}

impl BegunJudgement {
    /// The kind of lines for which the gates are judged.
    pub(crate) const fn line_kind(&self) -> LineKind {
        kind_of(self.word)
    }
}

/// The bits of the stage. `Disabled` is no number there: it has a bit of its own, which a judgement
/// never sets.
const STAGE_MASK: u64 = 3;
const UNJUDGED: u64 = 0;
const OPEN: u64 = 1;
const WAITING: u64 = 2;
const CLOSED: u64 = 3;
const DISABLED_BIT: u64 = 1 << 2;
const PER_CPU_BIT: u64 = 1 << 3;
const CHANGE: u64 = 1 << 4;

/// The word with a request for a judgement.
const fn request(word: u64) -> u64 {
    (word & !STAGE_MASK).wrapping_add(CHANGE)
}

const fn stage_of(word: u64) -> Stage {
    if word & DISABLED_BIT != 0 {
        return Stage::Disabled;
    }
    match word & STAGE_MASK {
        UNJUDGED => Stage::Unjudged,
        OPEN => Stage::Open,
        WAITING => Stage::Waiting,
        _ => Stage::Closed,
    }
}

const fn kind_of(word: u64) -> LineKind {
    if word & PER_CPU_BIT == 0 {
        LineKind::Common
    } else {
        LineKind::PerCpu
    }
}

/// The keeper of one clock's judgement. The [module](self) states its rules.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// The stage of the judgement, the program's switch, the kind of lines, and a count of changes.
    word: AtomicU64,
    /// The time at which the next iteration is due, or in the stage `Waiting` the next judgement,
    /// ns.
    due_ns: AtomicI64,
}

impl Keeper {
    /// A keeper before the first judgement, with one line for all CPUs, and the counter switched
    /// on.
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU64::new(UNJUDGED),
            due_ns: AtomicI64::new(i64::MIN),
        }
    }

    #[inline(always)]
    fn load_word(&self) -> u64 {
        // ORDERING: Acquire, pairs with the exchange in `set_stage`: a thread that sees a stage
        // sees what the judging thread stored before, and finds a kind of lines only after they
        // were made. And with the one in `change_word`: a judgement sees the settings that were
        // stored before the request.
        self.word.load(Ordering::Acquire)
    }

    /// See [`DrivenClock::changes`](crate::driver::DrivenClock::changes).
    pub(crate) fn changes(&self) -> u64 {
        self.load_word() / CHANGE
    }

    /// See [`DrivenClock::stage`](crate::driver::DrivenClock::stage).
    pub(crate) fn stage(&self) -> Stage {
        stage_of(self.load_word())
    }

    /// See [`DrivenClock::usable_line_kind`](crate::driver::DrivenClock::usable_line_kind).
    #[inline(always)]
    pub(crate) fn usable_line_kind(&self) -> Option<LineKind> {
        let word = self.load_word();
        (stage_of(word) == Stage::Open).then(|| kind_of(word))
    }

    /// Whether an iteration or a judgement is due in this stage.
    pub(crate) fn is_due(&self, stage: Stage, now_ns: i64) -> bool {
        match stage {
            Stage::Unjudged => true,
            // ORDERING: Relaxed, a hint. A thread that judges by it holds the clock's lock, under
            // which it was stored.
            Stage::Open | Stage::Waiting => {
                let left_ns = self.due_ns.load(Ordering::Relaxed).saturating_sub(now_ns);
                // No iteration is due later than the longest interval from now. A later time means
                // that a fork has moved the process into a time namespace whose clock is behind.
                left_ns <= 0 || left_ns.unsigned_abs() > *INTERVAL_RANGE_NS.end()
            }
            Stage::Closed | Stage::Disabled => false,
        }
    }

    /// Sets the time at which the next iteration is due, ns. Only the holder of the clock's lock
    /// may call this.
    pub(crate) fn set_due(&self, due_ns: i64) {
        // ORDERING: Relaxed, pairs with the load in `is_due`.
        self.due_ns.store(due_ns, Ordering::Relaxed);
    }

    /// Begins a judgement if one is due. The caller holds the clock's lock. Call this when no
    /// judgement of this process has confirmed [`usable_line_kind`](Self::usable_line_kind): after
    /// start-up, a change, or a fork. A change before the judgement is settled voids it. In a
    /// forked child the gates may be open already; its readers keep their lines until the judgement
    /// is settled.
    pub(crate) fn begin_if_due(&self, reference: &impl Reference) -> Option<BegunJudgement> {
        let word = self.load_word();
        let is_due = match stage_of(word) {
            Stage::Unjudged | Stage::Open => true,
            Stage::Waiting => self.is_due(Stage::Waiting, reference.monotonic_ns()),
            Stage::Closed | Stage::Disabled => false,
        };
        is_due.then_some(BegunJudgement {
            word,
            is_review: false,
        })
    }

    /// Begins another judgement, because facts may have changed since the last one. The caller
    /// holds the clock's lock. `None` if the first judgement since a change of the word is still to
    /// come, or if the counter is switched off.
    pub(crate) fn begin_review(&self) -> Option<BegunJudgement> {
        let word = self.load_word();
        let is_judged = !matches!(stage_of(word), Stage::Unjudged | Stage::Disabled);
        is_judged.then_some(BegunJudgement {
            word,
            is_review: true,
        })
    }

    /// Settles the judgement: bars or unbars the clock as `decision` says. Returns the kind of line
    /// for which the holder of the lock may run an iteration.
    pub(crate) fn settle<S: StateCell>(
        &self,
        begun: BegunJudgement,
        decision: Decision,
        access: Option<&Access<'_, S, impl Counter, impl Reference>>,
    ) -> Option<LineKind> {
        let kind = begun.line_kind();
        let BegunJudgement { word, is_review } = begun;
        // The line of the earlier judgement ends. `set_line_kind` has left a common line in use.
        if is_review || kind == LineKind::PerCpu {
            bar(access);
        }
        let stage_bits = match decision {
            Decision::Open { .. } => {
                unbar(access);
                // An iteration is due now. After a review, the stored time belongs to the line
                // that has ended.
                self.set_due(i64::MIN);
                OPEN
            }
            Decision::Closed {
                retry_at_ns: Some(due_ns),
            } => {
                self.set_due(due_ns);
                WAITING
            }
            Decision::Closed { retry_at_ns: None } => CLOSED,
        };
        let is_still_valid = self.set_stage(word, stage_bits);
        let may_iterate = is_still_valid && stage_bits == OPEN;
        if !may_iterate {
            bar(access);
        }
        if !is_still_valid {
            // After a concurrent `enable` the word still says `Open`, although the clock is barred.
            self.request_judgement_if_open();
        }
        may_iterate.then_some(kind)
    }

    /// Sets the stage after a judgement, if the word is still `before`. Returns whether it is. If
    /// open gates are found open again, concurrent calls of `enable` do not count, so readers keep
    /// the CPUs' lines.
    fn set_stage(&self, before: u64, stage_bits: u64) -> bool {
        let mut word = before;
        loop {
            let after = (word & !STAGE_MASK) | stage_bits;
            // ORDERING: Release, pairs with the exchange in `change_word`: a thread that changes
            // the word after this sees that the clock is unbarred. A failure orders nothing: the
            // clock is barred then, or the exchange is tried again.
            match self
                .word
                .compare_exchange(word, after, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(found) if after == word && found & (CHANGE - 1) == word & (CHANGE - 1) => {
                    word = found
                }
                Err(_) => return false,
            }
        }
    }

    /// Requests a judgement if the word says that the gates are open. The holder of the clock's
    /// lock calls this if its iteration has found the clock barred, or its judgement is void.
    /// Returns whether a judgement is due.
    pub(crate) fn request_judgement_if_open(&self) -> bool {
        let before = self.change_word(|word| {
            if stage_of(word) == Stage::Open {
                request(word)
            } else {
                word
            }
        });
        !stage_of(before).is_closed()
    }

    /// See [`DrivenClock::request_judgement`](crate::driver::DrivenClock::request_judgement).
    pub(crate) fn request_judgement<S: StateCell>(
        &self,
        access: Option<&Access<'_, S, impl Counter, impl Reference>>,
    ) {
        self.change_word(request);
        bar(access);
    }

    /// See [`DrivenClock::disable`](crate::driver::DrivenClock::disable).
    pub(crate) fn disable<S: StateCell>(
        &self,
        access: Option<&Access<'_, S, impl Counter, impl Reference>>,
    ) {
        self.change_word(|word| request(word) | DISABLED_BIT);
        bar(access);
    }

    /// See [`DrivenClock::enable`](crate::driver::DrivenClock::enable).
    pub(crate) fn enable(&self) {
        self.change_word(|word| match stage_of(word) {
            Stage::Open => word.wrapping_add(CHANGE),
            _ => request(word) & !DISABLED_BIT,
        });
    }

    /// See [`DrivenClock::set_line_kind`](crate::driver::DrivenClock::set_line_kind).
    pub(crate) fn set_line_kind(&self, kind: LineKind) {
        self.change_word(|word| {
            if kind_of(word) == kind {
                return word;
            }
            match kind {
                LineKind::Common => request(word) & !PER_CPU_BIT,
                LineKind::PerCpu => request(word) | PER_CPU_BIT,
            }
        });
    }

    /// Changes the word, and returns its former value.
    fn change_word(&self, change: impl Fn(u64) -> u64) -> u64 {
        // A guess: an exchange that fails returns the word. No load comes before the exchange. With
        // a load, loom would not see that this exchange and the load in `load_word` may come in
        // either order.
        let mut word = UNJUDGED;
        // ORDERING: Acquire, pairs with the exchange in `set_stage`: a clock that was unbarred
        // before this is seen to be so, and is barred. Release, pairs with the load in `load_word`:
        // the next judgement sees the settings that were changed before this.
        while let Err(found) =
            self.word
                .compare_exchange(word, change(word), Ordering::AcqRel, Ordering::Relaxed)
        {
            word = found;
        }
        word
    }
}

#[cfg(test)]
mod tests;
