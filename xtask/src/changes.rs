//! Says in which files code has changed since a commit, so that a result of the commit does not
//! pass for a result of the present code.

use std::path::Path;
use std::process::Command;

use crate::command::command;

/// A line that is not blank and no comment of Rust, for `git diff -G`.
const CODE_LINE: &str = "^[[:space:]]*([^/[:space:]]|/[^/])";

/// What a commit is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Other<'a> {
    Commit(&'a str),
    /// The present files, with those that git does not know yet.
    PresentFiles,
}

/// The files among `paths` in which a [`CODE_LINE`] differs from a commit, and the renamed ones.
/// `paths` are pathspecs of git, with spaces between them. `None` if this clone does not have a
/// commit.
pub(crate) fn changed_files(
    clone: &Path,
    commit: &str,
    other: Other<'_>,
    paths: &str,
) -> Option<Vec<String>> {
    let paths = || paths.split_whitespace();
    // `--quiet` would stop at the first file that differs, even if `-G` then leaves this file out.
    let mut diff = command("git diff --name-only --no-renames --text -G");
    diff.arg(CODE_LINE).arg(commit);
    if let Other::Commit(other) = other {
        diff.arg(other);
    }
    let mut files = files(clone, diff.arg("--").args(paths()))?;
    if matches!(other, Other::PresentFiles) {
        let mut new = command("git ls-files --others --exclude-standard --");
        files.extend(self::files(clone, new.args(paths()))?);
    }
    Some(files)
}

/// The files that this command of git lists; `None` if it fails.
fn files(clone: &Path, git: &mut Command) -> Option<Vec<String>> {
    let output = git.current_dir(clone).output().ok()?;
    let files = String::from_utf8_lossy(&output.stdout);
    let files = files.lines().map(str::to_owned).collect();
    output.status.success().then_some(files)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::files::target;

    /// A repository with one commit, which is removed after the test.
    struct Repository(PathBuf);

    impl Repository {
        /// Commits these files, each with its text. No other test gives its repository this name.
        fn new<'a>(name: &str, files: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
            let repository = Self(target().join(format!("changes-{}-{name}", std::process::id())));
            for (file, text) in files {
                repository.write(file, text);
            }
            repository.git("init -q");
            repository.git("add .");
            repository.git("-c user.name=a -c user.email=a@b commit -q -m a");
            repository
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn git(&self, line: &str) {
            let mut git = command("git");
            let status = git.args(line.split(' ')).current_dir(&self.0).status();
            assert!(status.unwrap().success(), "{line}");
        }

        fn changed(&self, paths: &str) -> Vec<String> {
            changed_files(&self.0, "HEAD", Other::PresentFiles, paths).unwrap()
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    /// The files among `paths` whose code counts as changed after these changes: a file, its text
    /// before, and its text after.
    pub(crate) fn changed_after(name: &str, changes: &[[&str; 3]], paths: &str) -> Vec<String> {
        let before = changes.iter().map(|[file, before, _]| (*file, *before));
        let repository = Repository::new(name, before);
        for [file, _, after] in changes {
            repository.write(file, after);
        }
        repository.changed(paths)
    }

    const CHANGED_LINE: [&str; 3] = ["b.rs", "let a = 1;\n", "let a = 2;\n"];
    const CHANGED_COMMENT: [&str; 3] = ["a.rs", "    /// One.\n", "    /// Two.\n"];

    #[test]
    fn a_changed_line_of_code_is_other_code() {
        assert_eq!(changed_after("line", &[CHANGED_LINE], "."), ["b.rs"]);
    }

    #[test]
    fn a_changed_comment_is_no_other_code() {
        assert!(changed_after("comment", &[CHANGED_COMMENT], ".").is_empty());
    }

    /// Symptom: `git diff --quiet -G` stops at the first file that differs. If that file had a
    /// changed comment only, a record was of the present code, whatever the other files had.
    #[test]
    fn a_changed_line_after_a_changed_comment_is_other_code() {
        let changes = [CHANGED_COMMENT, CHANGED_LINE];
        assert_eq!(changed_after("both", &changes, "."), ["b.rs"]);
    }

    #[test]
    fn a_new_file_is_other_code() {
        let repository = Repository::new("new", [("a.rs", "let a = 1;\n")].into_iter());
        repository.write("tests/new.rs", "let a = 1;\n");
        assert_eq!(repository.changed("."), ["tests/new.rs"]);
    }

    #[test]
    fn a_renamed_file_is_other_code() {
        let repository = Repository::new("renamed", [("a.rs", "let a = 1;\n")].into_iter());
        repository.git("mv a.rs b.rs");
        assert_eq!(repository.changed("."), ["a.rs", "b.rs"]);
    }

    #[test]
    fn a_changed_binary_file_is_other_code() {
        let changed = ["corpus/a", "a\0b\n", "a\0c\n"];
        assert_eq!(changed_after("binary", &[changed], "."), ["corpus/a"]);
    }

    #[test]
    fn a_commit_that_is_not_known_has_no_list_of_changed_files() {
        let unknown = "0123456789abcdef0123456789abcdef01234567";
        let head = Other::Commit("HEAD");
        let changed = |commit| changed_files(crate::files::root(), commit, head, ".");
        assert_eq!(changed("HEAD"), Some(Vec::new()));
        assert_eq!(changed(unknown), None);
    }
}
