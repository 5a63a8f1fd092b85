//! The frame of a chart: title, legend, drawing, caption.

use maud::{Markup, html};

/// The width of a chart's view box. A text of 12 units is 10 pixels high on a screen of 390
/// pixels.
pub(super) const WIDTH: f64 = 440.0;

/// A chart with its title, what it means, and its legend.
#[derive(Debug)]
pub(super) struct Figure<'a> {
    pub(super) title: &'a str,
    /// The content in words, for readers who do not see the drawing.
    pub(super) summary: &'a str,
    pub(super) meaning: Markup,
    pub(super) legend: &'a [(&'a str, Swatch)],
    /// The class of the drawing: `large` for texts of 14 units.
    pub(super) size: Option<&'static str>,
    pub(super) height: f64,
    pub(super) drawing: Markup,
}

/// The symbol of a series in the legend, with its class.
#[derive(Debug, Clone, Copy)]
pub(super) enum Swatch {
    Bar(&'static str),
    Line(&'static str),
    Dot(&'static str),
}

impl Figure<'_> {
    pub(super) fn markup(self) -> Markup {
        html! {
            figure {
                h3 { (self.title) }
                @if !self.legend.is_empty() {
                    ul.legend {
                        @for (name, swatch) in self.legend { li { (swatch.markup()) (name) } }
                    }
                }
                svg class=[self.size] viewBox=(format!("0 0 {WIDTH} {}", self.height)) role="img" aria-label=(self.summary) {
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
pub(super) fn units(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
