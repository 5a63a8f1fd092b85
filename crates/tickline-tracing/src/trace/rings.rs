//! Records, and the rings that have them: a record in words with its fields, and the ring that a
//! thread writes without a lock.

pub(crate) mod encoding;
pub(crate) mod fields;
pub(crate) mod memory;
pub(crate) mod record;
pub(crate) mod ring;
