//! The CPUs that a command looks at.

use std::io;

use tickline::exchange;
use tickline_core::cpu_list;

use crate::args::CpuList;

/// Those named, if each can be had; else all on which this process may run.
pub(crate) fn chosen(list: Option<&CpuList>) -> io::Result<Vec<u32>> {
    let Some(CpuList(cpus)) = list else { return Ok(exchange::cpus()) };
    let Some(missing) = cpus.iter().find(|cpu| exchange::on_cpu(**cpu, || ()).is_none()) else {
        return Ok(cpus.clone());
    };
    let usable = exchange::cpus();
    let but = if usable.is_empty() { String::new() } else { format!(", but on {}", ranges(&usable)) };
    Err(io::Error::other(format!("--cpus: this process cannot run on CPU {missing}{but}")))
}

/// A list as Linux writes it: `0-3,8`.
pub(crate) fn ranges(cpus: &[u32]) -> String {
    let mut text = String::new();
    for run in cpus.chunk_by(|cpu, next| cpu + 1 == *next) {
        let (first, last) = (run[0], run[run.len() - 1]);
        let comma = if text.is_empty() { "" } else { "," };
        text += &if first == last { format!("{comma}{first}") } else { format!("{comma}{first}-{last}") };
    }
    text
}

/// How many CPUs are in such a list; `None` if it is none.
pub(crate) fn count(list: &str) -> Option<u32> {
    let ids = cpu_list::ids_in_list(list.as_bytes())?;
    u32::try_from((0..ids).filter(|cpu| cpu_list::names(list.as_bytes(), *cpu)).count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_short() {
        for (cpus, text) in [(&[0, 1, 2, 3, 8][..], "0-3,8"), (&[5], "5"), (&[], ""), (&[1, 3, 4], "1,3-4")] {
            assert_eq!(ranges(cpus), text);
            assert_eq!(count(text).map_or(0, |count| count as usize), cpus.len());
        }
    }

    /// Which no machine that runs this has.
    #[test]
    fn an_unusable_cpu_is_named() {
        let error = chosen(Some(&CpuList(vec![8_191]))).unwrap_err().to_string();
        assert!(error.contains("CPU 8191"), "{error}");
    }
}
