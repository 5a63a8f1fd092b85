//! How a program's spans and events get into rings: the sink, the recorder with the list of all
//! rings, and the black box's file, in which rings outlive the program.

pub(crate) mod black_box;
pub(crate) mod kept_ends;
pub(crate) mod panic_event;
pub(crate) mod recorded_spans;
pub(crate) mod recorder;
pub(crate) mod ring_list;
pub(crate) mod thread_recorder;
pub(crate) mod trace_sink;
