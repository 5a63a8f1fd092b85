//! What an error's text says about the command line: where a path begins, and which command helps.

use std::env;
use std::fs;
use std::io;
use std::path::Path;

/// The path, and if it is relative the folder in which it begins: cargo runs a program in the
/// folder of its package, which need not be the folder in which the user has called cargo.
pub(crate) fn located(path: &Path) -> String {
    let shown = path.display();
    match env::current_dir() {
        Ok(here) if path.is_relative() => format!(
            "{shown} (in {}; cargo runs a program in its package's folder)",
            here.display()
        ),
        _ => shown.to_string(),
    }
}

/// The command that saves a baseline. Without `--bench NAME` cargo would give criterion's options
/// to the package's other programs too, whose test harness refuses them.
pub(crate) fn command_that_saves(baseline: &str) -> String {
    cargo_bench(&format!("-- --save-baseline {baseline}"))
}

/// Why no process of a benchmark program has started, and which command makes such a program.
pub(crate) fn not_started(program: &Path, error: &io::Error) -> String {
    let metadata = fs::metadata(program);
    let wrong = match (metadata, error.kind()) {
        (Ok(data), _) if data.is_dir() => {
            "it is a folder, and no program; give the path of one".to_owned()
        }
        (Ok(_), io::ErrorKind::PermissionDenied) => {
            format!("it is a file that may not be executed: {error}")
        }
        (Ok(_), io::ErrorKind::NotFound) => {
            format!("it is there, but not what starts it, such as a loader: {error}")
        }
        (Err(_), io::ErrorKind::NotFound) => format!("there is no such file: {error}"),
        _ => format!("it can't be started: {error}"),
    };
    format!(
        "{wrong}; a benchmark program is expected: {} makes one, and prints its path",
        cargo_bench("--no-run")
    )
}

/// The command that runs this program's `[[bench]]`, with these arguments.
fn cargo_bench(arguments: &str) -> String {
    let program = env::args_os().next().unwrap_or_default();
    let name = bench_name(Path::new(&program)).unwrap_or("NAME");
    format!("`cargo bench --bench {name} {arguments}`")
}

/// The name of a program's `[[bench]]`: what is before cargo's hash in the name of its file. `None`
/// without such a hash: the user may have given the file another name. `None` with a `_`: cargo
/// writes one in place of each `-`, too.
fn bench_name(program: &Path) -> Option<&str> {
    const HASH_DIGITS: usize = 16;
    let (name, hash) = program.file_stem()?.to_str()?.rsplit_once('-')?;
    let is_hash = hash.len() == HASH_DIGITS && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    (is_hash && !name.contains('_')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchs_name_is_before_cargos_hash() {
        for (program, name) in [
            ("/t/deps/wheel-0123456789abcdef", Some("wheel")),
            ("/t/deps/wheel2-0123456789abcdef", Some("wheel2")),
            ("/tmp/wheel", None),
            ("/tmp/work-100", None),
            ("/tmp/wheel-0123456789abcdeg", None),
        ] {
            assert_eq!(bench_name(Path::new(program)), name, "{program}");
        }
    }

    /// Symptom: the command named `--bench my_bench`, and the target was `my-bench`.
    #[test]
    fn a_name_with_an_underscore_may_have_a_hyphen_in_its_place() {
        let program = Path::new("/t/deps/my_bench-0123456789abcdef");
        assert_eq!(bench_name(program), None);
    }

    /// Symptom: `./main-bench: No such file or directory`, and it was there in the user's folder.
    #[test]
    fn a_relative_path_has_the_folder_in_which_it_begins() {
        let here = env::current_dir().expect("a folder");
        let text = located(Path::new("./main-bench"));
        let expected = format!("./main-bench (in {}; cargo runs", here.display());
        assert!(text.starts_with(&expected), "{text}");
    }

    #[test]
    fn an_absolute_path_is_all_that_is_said() {
        let here = env::current_dir().expect("a folder");
        assert_eq!(located(&here), here.display().to_string());
    }
}
