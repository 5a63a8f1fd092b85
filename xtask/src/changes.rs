//! Says in which files code has changed since a commit, so that a result of the commit does not
//! pass for a result of the present code.

use std::path::Path;

use crate::step::command;

/// A line that is not blank and no comment, for `git diff -G`.
const CODE_LINE: &str = "^[[:space:]]*([^/[:space:]]|/[^/])";

/// The files among `paths` in which a [`CODE_LINE`] differs between two commits, and the renamed
/// ones. An empty `other` stands for the present files, with those that git does not know yet.
/// `paths` are pathspecs of git, with spaces between them. `None` if this clone does not have a
/// commit.
pub(crate) fn changed_files(
    clone: &Path,
    [commit, other]: [&str; 2],
    paths: &str,
) -> Option<Vec<String>> {
    // `--quiet` would stop at the first file that differs, even if `-G` then leaves this file out.
    let diff = format!(
        "git diff --name-only --no-renames --text -G{CODE_LINE} {commit} {other} -- {paths}"
    );
    let mut files = files(clone, &diff)?;
    if other.is_empty() {
        let new = format!("git ls-files --others --exclude-standard -- {paths}");
        files.extend(self::files(clone, &new)?);
    }
    Some(files)
}

/// The files that this command of git lists; `None` if it fails.
fn files(clone: &Path, line: &str) -> Option<Vec<String>> {
    let output = command(line).current_dir(clone).output().ok()?;
    let files = String::from_utf8_lossy(&output.stdout);
    let files = files.lines().map(str::to_owned).collect();
    output.status.success().then_some(files)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;
    use crate::files::target;

    /// The files among `paths` whose code counts as changed after these changes: a file, its text
    /// before, and its text after. No other test gives its clone this name.
    pub(crate) fn changed_after(name: &str, changes: &[[&str; 3]], paths: &str) -> Vec<String> {
        let clone = target().join(format!("changes-{}-{name}", std::process::id()));
        let git = |line: &str| {
            let status = command(line).current_dir(&clone).status();
            assert!(status.unwrap().success(), "{line}");
        };
        for [file, before, _] in changes {
            let path = clone.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, before).unwrap();
        }
        git("git init -q");
        git("git add .");
        git("git -c user.name=a -c user.email=a@b commit -q -m a");
        for [file, before, after] in changes {
            let path = clone.join(file);
            if before.is_empty() {
                // The file was made after the commit.
                git(&format!("git rm -q --cached {file}"));
                git("git -c user.name=a -c user.email=a@b commit -q -m b");
            }
            fs::write(path, after).unwrap();
        }
        let changed = changed_files(&clone, ["HEAD", ""], paths).unwrap();
        fs::remove_dir_all(clone).unwrap();
        changed
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
        let new = ["tests/new.rs", "", "let a = 1;\n"];
        assert_eq!(
            changed_after("new", &[CHANGED_COMMENT, new], "."),
            ["tests/new.rs"]
        );
    }

    #[test]
    fn a_changed_binary_file_is_other_code() {
        let changed = ["corpus/a", "a\0b\n", "a\0c\n"];
        assert_eq!(changed_after("binary", &[changed], "."), ["corpus/a"]);
    }

    #[test]
    fn a_commit_that_is_not_known_has_no_list_of_changed_files() {
        let unknown = "0123456789abcdef0123456789abcdef01234567";
        let changed = |commit| changed_files(crate::files::root(), [commit, "HEAD"], ".");
        assert_eq!(changed("HEAD"), Some(Vec::new()));
        assert_eq!(changed(unknown), None);
    }
}
