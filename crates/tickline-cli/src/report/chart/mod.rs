//! Charts as SVG inside the page, which need no script. All share one width, so that their texts have one size; colours are
//! classes of `page.css`, and what colours tell apart differs in shape or place, too.

pub(super) mod cost;
pub(super) mod latency;
pub(super) mod offset;
mod scale;
pub(super) mod warp;

use maud::{Markup, html};

pub(super) use self::scale::time;

/// The width of a chart's view box. A text of 12 units is 10 pixels high on a screen of 390 pixels.
const WIDTH: f64 = 440.0;

/// A chart with its title, what it means, and its legend.
#[derive(Debug)]
struct Figure<'a> {
    title: &'a str,
    /// What it shows, in words, for those who do not see it.
    summary: &'a str,
    meaning: Markup,
    legend: &'a [(&'a str, Swatch)],
    height: f64,
    drawing: Markup,
}

/// What stands for a series in the legend: the class of a shape.
#[derive(Debug, Clone, Copy)]
enum Swatch {
    Bar(&'static str),
    Line(&'static str),
    Dot(&'static str),
}

impl Figure<'_> {
    fn markup(self) -> Markup {
        html! {
            figure {
                h3 { (self.title) }
                @if !self.legend.is_empty() {
                    ul.legend {
                        @for (name, swatch) in self.legend { li { (swatch.markup()) (name) } }
                    }
                }
                svg viewBox=(format!("0 0 {WIDTH} {}", self.height)) role="img" aria-label=(self.summary) {
                    (self.drawing)
                }
                figcaption { (self.meaning) }
            }
        }
    }
}

impl Swatch {
    fn markup(self) -> Markup {
        html! {
            svg.swatch viewBox="0 0 22 10" aria-hidden="true" {
                @match self {
                    Self::Bar(class) => rect class=(class) width="22" height="10" {},
                    Self::Line(class) => path class=(class) d="M0 5H22" {},
                    Self::Dot(class) => path class=(class) d="M4 5h0M11 5h0M18 5h0" {},
                }
            }
        }
    }
}

/// A share of a view box, to a tenth of a unit.
fn units(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
