//! Scales: from values to places, with round marks.

use maud::{Markup, html};

use super::figure::{WIDTH, units};

/// The places of the axes in the drawings that have two.
pub(super) const LEFT: f64 = 66.0;
pub(super) const TOP: f64 = 8.0;
pub(super) const BOTTOM: f64 = 212.0;
/// What the horizontal axis shows stands below its labels.
pub(super) const HEIGHT: f64 = BOTTOM + 38.0;

/// Names the horizontal axis of such a drawing.
pub(super) fn below(name: &str) -> Markup {
    html! { text.middle x=(units((LEFT + WIDTH) / 2.0)) y=(HEIGHT - 4.0) { (name) } }
}

/// Values from `low` to `high` on a line of the drawing.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Linear,
    /// `low` and `high` are logarithms to base 10.
    Decades,
}

impl Scale {
    /// `low` to `high` are placed at `from` to `to`, units of the drawing.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { low, high: if high > low { high } else { low + 1.0 }, from, to, kind: Kind::Linear }
    }

    /// A logarithmic scale; `low` and `high` are above 0.
    pub(super) fn decades(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { kind: Kind::Decades, ..Self::linear(low.log10(), high.log10(), from, to) }
    }

    /// Where a value is; values outside are at the ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = match self.kind {
            Kind::Linear => value,
            Kind::Decades => value.max(f64::MIN_POSITIVE).log10(),
        };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        units(self.from + share * (self.to - self.from))
    }

    /// Round values between the ends, about `count` of them.
    pub(super) fn marks(&self, count: f64) -> Vec<f64> {
        let step = match self.kind {
            Kind::Linear => nice_above((self.high - self.low) / count),
            Kind::Decades => ((self.high - self.low) / count).ceil().max(1.0),
        };
        let first = (self.low / step).ceil();
        let values = (0..100).map(|index| (first + f64::from(index)) * step);
        let inside = values.take_while(|value| *value <= self.high + step * 1e-6);
        inside.map(|value| if self.kind == Kind::Linear { value } else { 10_f64.powf(value) }).collect()
    }

    /// The marks of a vertical scale: a thin line along `x`, and a label to its left.
    pub(super) fn rows(&self, count: f64, x: &Self, label: impl Fn(f64) -> String) -> Markup {
        html! {
            @for value in self.marks(count) {
                @let (y, left) = (self.at(value), x.from);
                path.grid d=(format!("M{left} {y}H{WIDTH}")) {}
                text.end x=(left - 5.0) y=(units(y + 4.0)) { (label(value)) }
            }
        }
    }

    /// The marks of a horizontal scale along `y`, labelled below; those near the ends are
    /// moved inwards.
    pub(super) fn columns(&self, count: f64, y: &Self, label: impl Fn(f64) -> String) -> Markup {
        html! {
            @for value in self.marks(count) {
                @let (x, bottom) = (self.at(value), y.from);
                path.grid d=(format!("M{x} {}V{bottom}", y.to)) {}
                text.middle[(20.0..WIDTH - 20.0).contains(&x)].end[x >= WIDTH - 20.0] x=(x) y=(bottom + 15.0) { (label(value)) }
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten, not below `value`.
fn nice_above(value: f64) -> f64 {
    let value = value.max(1e-9);
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_inside() {
        assert_eq!(Scale::linear(-30.0, 30.0, 0.0, 1.0).marks(4.0), [-20.0, 0.0, 20.0]);
        assert_eq!(Scale::linear(0.0, 10.0, 0.0, 1.0).marks(5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Scale::linear(0.0, 3_600.0, 0.0, 1.0).marks(5.0), [0.0, 1_000.0, 2_000.0, 3_000.0]);
        assert_eq!(Scale::decades(1.0, 1e9, 0.0, 1.0).marks(5.0), [1.0, 1e2, 1e4, 1e6, 1e8]);
        assert!(!Scale::linear(5.0, 5.0, 0.0, 1.0).marks(5.0).is_empty(), "no range is one of 1");
    }
}
