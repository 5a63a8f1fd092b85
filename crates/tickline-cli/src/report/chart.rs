//! Charts as SVG inside the report, which need no script. They share one width, so that their texts
//! have one size. Colours are classes of `report.css`. Things that differ in colour also differ in
//! shape or place.

pub(super) mod cost;
mod figure;
pub(super) mod latency;
pub(super) mod offset;
mod scale;
