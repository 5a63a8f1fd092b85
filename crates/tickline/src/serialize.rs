//! `serde::Serialize` of readings and of what a clock says about itself. Keys carry units; gates,
//! reasons and events have their stable names. Nothing reads a status back, so there is no
//! `Deserialize`.

use serde::ser::{Serialize, SerializeStruct, SerializeStructVariant, Serializer};
use tickline_core::gate::{Comparison, Reason, Verdict};
use tickline_core::shared::BoundParts;

use crate::options::{Driver, Environment};
use crate::reading::Reading;
use crate::status::{CpuState, CpuStatus, Events, State, Status};

/// A struct with these keys.
macro_rules! fields {
    ($serializer:ident, $name:literal, $($key:literal: $value:expr,)*) => {{
        let mut fields = $serializer.serialize_struct($name, [$($key),*].len())?;
        $(fields.serialize_field($key, $value)?;)*
        fields.end()
    }};
}

/// An enum by the names of its variants.
macro_rules! names {
    ($type:ident: $($variant:ident = $name:literal),*) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(match self { $(Self::$variant => $name),* })
            }
        }
    };
}

names!(CpuState: Calibrating = "calibrating", Fast = "fast", Fallback = "fallback");
names!(Driver: Reader = "reader", Thread = "thread", Manual = "manual");
names!(Environment: Unset = "unset", On = "on", Off = "off", Unrecognised = "unrecognised");

/// A type of the core crate, which is nobody's to implement for but that crate's.
struct Foreign<'a, T>(&'a T);

/// A list of such.
struct List<'a, T>(&'a [T]);

impl<'a, T> Serialize for List<'a, T>
where
    Foreign<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Foreign))
    }
}

impl<T: Serialize + Copy> Serialize for Reading<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "Reading",
            "earliest": &self.earliest(),
            "at": &self.at(),
            "latest": &self.latest(),
            "state": &self.state(),
        )
    }
}

/// `"fast"`, or `{"fallback": "slow"}`.
impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Calibrating => serializer.serialize_unit_variant("State", 0, "calibrating"),
            Self::Fast => serializer.serialize_unit_variant("State", 1, "fast"),
            Self::Disrupted => serializer.serialize_unit_variant("State", 2, "disrupted"),
            Self::Fallback(reason) => {
                serializer.serialize_newtype_variant("State", 3, "fallback", reason.code())
            }
            Self::Unavailable => serializer.serialize_unit_variant("State", 4, "unavailable"),
        }
    }
}

impl Serialize for Foreign<'_, Verdict> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "Verdict",
            "gate": self.0.gate.name(),
            "closed": &self.0.closed.map(Reason::code),
            "warning": &self.0.warning.map(Reason::code),
        )
    }
}

impl Serialize for Foreign<'_, Comparison> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Comparison::Pending => serializer.serialize_str("pending"),
            Comparison::Single => serializer.serialize_str("single"),
            Comparison::Synchronised { cpus } => {
                let mut fields = serializer.serialize_struct_variant("Comparison", 2, "synchronised", 1)?;
                fields.serialize_field("cpus", cpus)?;
                fields.end()
            }
            Comparison::Unsynchronised(pair) => {
                let mut fields = serializer.serialize_struct_variant("Comparison", 3, "unsynchronised", 4)?;
                fields.serialize_field("here", &pair.here())?;
                fields.serialize_field("there", &pair.there())?;
                fields.serialize_field("least_ticks", &pair.difference().least_ticks())?;
                fields.serialize_field("most_ticks", &pair.difference().most_ticks())?;
                fields.end()
            }
            _ => serializer.serialize_str("impossible"),
        }
    }
}

impl Serialize for Foreign<'_, BoundParts> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "BoundParts",
            "sample_ns": &self.0.sample_ns,
            "dither_ns": &self.0.dither_ns,
            "stability_ppb": &self.0.stability_ppb,
            "slope_ppb": &self.0.slope_ppb,
            "dither_ppb": &self.0.dither_ppb,
        )
    }
}

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(event, count)| (event.name(), count)))
    }
}

impl Serialize for CpuStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "CpuStatus",
            "cpu": &self.cpu,
            "state": &self.state,
            "frequency_hz": &self.frequency_hz,
            "offset_ns": &self.offset_ns,
            "age_ns": &self.age_ns,
            "failures": &self.failures,
        )
    }
}

#[cfg(all(feature = "page", target_os = "linux", not(miri)))]
impl Serialize for crate::page::PageStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fields!(serializer, "PageStatus",
            "path": &*self.path.to_string_lossy(),
            "owner": &self.owner,
            "phase": self.phase.name(),
            "lead_ns": &self.lead_ns,
            "lease_left_ns": &self.lease_left_ns,
        )
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[cfg(all(feature = "page", target_os = "linux", not(miri)))]
        let page = &self.page.as_deref();
        #[cfg(not(all(feature = "page", target_os = "linux", not(miri))))]
        let page = &None::<()>;
        fields!(serializer, "Status",
            "state": &self.state,
            "judged": &self.judged,
            "verdicts": &List(self.verdicts()),
            "driver": &self.driver,
            "environment": &self.environment,
            "hypervisor": self.hypervisor.name(),
            "comparison": &Foreign(&self.comparison),
            "nominal_hz": &self.nominal_hz,
            "frequency_hz": &self.frequency_hz,
            "bound_ns": &self.bound_ns,
            "max_drift_ppb": &self.max_drift_ppb,
            "bound_parts": &Foreign(&self.bound_parts),
            "offset_ns": &self.offset_ns,
            "interval_ns": &self.interval_ns,
            "utc_error_ns": &self.utc_error_ns,
            "events": &self.events,
            "page": page,
            "per_cpu": &self.per_cpu[..],
        )
    }
}
