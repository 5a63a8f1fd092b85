//! The processor of a record: its name, and on x86 its family and model, because guests see names
//! that many processors share.

use std::fs;

/// The processor by which a record is kept, from the name that the program `tickline` gives it.
pub(super) fn processor(name: &str) -> String {
    described(name, &fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// The same, from the kernel's name of it.
pub(super) fn of_this_machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    described(value(&cpuinfo, "model name").unwrap_or_default(), &cpuinfo)
}

/// The first value of a key.
fn value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then(|| value.trim())
    })
}

/// Without trade marks and the clock rate, which add nothing to family and model.
fn described(name: &str, cpuinfo: &str) -> String {
    let name = name.split('@').next().unwrap_or_default();
    let plain =
        ["(R)", "(TM)", "(r)", "(tm)"].iter().fold(name.to_owned(), |name, mark| name.replace(mark, ""));
    let words: Vec<&str> =
        plain.split_whitespace().filter(|word| !["CPU", "Processor"].contains(word)).collect();
    let name = if words.is_empty() { "unknown".into() } else { words.join(" ") };
    match value(cpuinfo, "cpu family").zip(value(cpuinfo, "model")) {
        Some((family, model)) => format!("{name}, family {family}, model {model}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_share_a_name_are_told_apart() {
        let cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n\
                       model name\t: Intel(R) Xeon(R) Processor\n";
        assert_eq!(described("Intel(R) Xeon(R) Processor", cpuinfo), "Intel Xeon, family 6, model 207");
        assert_eq!(described("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", ""), "Intel Xeon Gold 6230");
        assert_eq!(described("AMD EPYC", "cpu family : 26\nmodel : 2\n"), "AMD EPYC, family 26, model 2");
        assert_eq!(described("", ""), "unknown");
    }
}
