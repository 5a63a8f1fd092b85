//! Charts as SVG inside the page, which need no script. All share one width, so that their texts have one size; colours are
//! classes of `page.css`, and what colours tell apart differs in shape or place, too.

pub(super) mod cost;
mod figure;
pub(super) mod latency;
pub(super) mod offset;
mod scale;
pub(super) mod warp;

pub(super) use self::scale::time;
