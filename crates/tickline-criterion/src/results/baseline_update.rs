//! How a run becomes the baseline: `--update-on-pass`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Makes this run the baseline `name` of the benchmarks in `folders`: criterion's files and this
/// crate's. After an error all old baselines are unchanged: the copies are made first, and moves
/// that were made are undone.
pub(crate) fn update_baselines(folders: &BTreeSet<PathBuf>, name: &str) -> Result<(), String> {
    let mut updates: Vec<Update> = folders
        .iter()
        .map(|folder| Update::new(folder, name))
        .collect();
    let updated = updates.iter().try_for_each(Update::copy);
    let updated = updated.and_then(|()| updates.iter_mut().try_for_each(Update::make));
    if updated.is_err() {
        updates.iter_mut().for_each(Update::undo);
    }
    updates.iter().for_each(Update::remove_rest);
    updated
}

/// The update of a benchmark's baseline.
#[derive(Debug)]
struct Update {
    /// This run.
    run: PathBuf,
    baseline: PathBuf,
    /// The copy of the run, until it is the baseline.
    new: PathBuf,
    /// The former baseline.
    old: PathBuf,
    is_made: bool,
}

impl Update {
    fn new(folder: &Path, name: &str) -> Self {
        let beside = |what: &str| folder.join(format!("{name}-{what}-{}", std::process::id()));
        Self {
            run: folder.join("new"),
            baseline: folder.join(name),
            new: beside("new"),
            old: beside("old"),
            is_made: false,
        }
    }

    /// Copies the run next to the baseline.
    fn copy(&self) -> Result<(), String> {
        let copy = || -> io::Result<()> {
            fs::create_dir_all(&self.new)?;
            for entry in fs::read_dir(&self.run)? {
                let entry = entry?;
                fs::copy(entry.path(), self.new.join(entry.file_name()))?;
            }
            Ok(())
        };
        self.named(copy())
    }

    /// Makes the copy the baseline.
    fn make(&mut self) -> Result<(), String> {
        if self.baseline.exists() {
            self.named(fs::rename(&self.baseline, &self.old))?;
        }
        self.named(fs::rename(&self.new, &self.baseline))?;
        self.is_made = true;
        Ok(())
    }

    /// Makes the former baseline the baseline again.
    fn undo(&mut self) {
        if self.is_made {
            _ = fs::rename(&self.baseline, &self.new);
        }
        if !self.baseline.exists() {
            _ = fs::rename(&self.old, &self.baseline);
        }
    }

    /// Removes the copy, and the former baseline if there is a baseline: it is the last copy of
    /// otherwise lost files.
    fn remove_rest(&self) {
        _ = fs::remove_dir_all(&self.new);
        if self.baseline.exists() {
            _ = fs::remove_dir_all(&self.old);
        }
    }

    /// The result, with the baseline's path in the text of an error.
    fn named(&self, result: io::Result<()>) -> Result<(), String> {
        result.map_err(|error| format!("{}: {error}", self.baseline.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::Folder;

    /// A benchmark with a baseline.
    fn with_baseline(test: &str) -> Folder {
        let folder = Folder::new(test);
        folder.write("main/gone.json", "old");
        folder.write("main/pairs.json", "old");
        folder
    }

    #[test]
    fn without_a_run_a_baseline_stays() {
        let folder = with_baseline("update-without");
        update_baselines(&BTreeSet::from([folder.0.clone()]), "main").expect_err("there is no run");
        assert_eq!(folder.read("main/gone.json").as_deref(), Some("old"));
    }

    #[test]
    fn an_updated_baseline_has_the_files_of_the_run_and_no_others() {
        let folder = with_baseline("update");
        folder.write("new/pairs.json", "new");
        update_baselines(&BTreeSet::from([folder.0.clone()]), "main").expect("there is a run");
        assert_eq!(folder.read("main/pairs.json").as_deref(), Some("new"));
        assert_eq!(folder.entries("main"), 1);
    }

    #[test]
    fn an_update_leaves_the_run_and_the_baseline_alone_in_the_folder() {
        let folder = with_baseline("update-rest");
        folder.write("new/pairs.json", "new");
        update_baselines(&BTreeSet::from([folder.0.clone()]), "main").expect("there is a run");
        assert_eq!(folder.entries(""), 2);
    }

    /// Three benchmarks: one with a baseline and a run, one with a run, and one without files.
    fn three_benchmarks(test: &str) -> (Folder, [PathBuf; 3]) {
        let folder = Folder::new(test);
        folder.write("a/main/pairs.json", "old");
        folder.write("a/new/pairs.json", "new");
        folder.write("b/new/pairs.json", "new");
        let folders = ["a", "b", "c"].map(|name| folder.0.join(name));
        fs::create_dir_all(&folders[2]).expect("a folder without a run");
        (folder, folders)
    }

    /// The same. The third has a run, and its baseline can't be moved to the place of another file.
    fn third_cannot_be_moved(test: &str) -> (Folder, [PathBuf; 3]) {
        let (folder, folders) = three_benchmarks(test);
        folder.write("c/new/pairs.json", "new");
        folder.write("c/main/pairs.json", "old");
        folder.write(&format!("c/main-old-{}/in the way", std::process::id()), "");
        (folder, folders)
    }

    #[test]
    fn an_error_names_the_baseline_that_cannot_be_updated() {
        let (folder, folders) = three_benchmarks("undo-name");
        let error = update_baselines(&folders.into(), "main").expect_err("c has no run");
        let baseline = folder.0.join("c").join("main");
        assert!(
            error.starts_with(&format!("{}: ", baseline.display())),
            "{error}"
        );
    }

    /// Symptom: the baselines of the benchmarks before the one that failed were this run's,
    /// although the baseline was said to be not updated.
    #[test]
    fn if_one_run_cannot_be_copied_no_baseline_is_updated() {
        let (folder, folders) = three_benchmarks("undo-copy");
        update_baselines(&folders.into(), "main").expect_err("c has no run");
        assert_eq!(folder.read("a/main/pairs.json").as_deref(), Some("old"));
    }

    #[test]
    fn if_one_baseline_cannot_be_moved_the_others_are_as_before() {
        let (folder, folders) = third_cannot_be_moved("undo-move");
        update_baselines(&folders.into(), "main").expect_err("c has something in the way");
        assert_eq!(folder.read("a/main/pairs.json").as_deref(), Some("old"));
        assert_eq!(folder.read("b/main/pairs.json"), None, "it had no baseline");
    }

    #[test]
    fn an_update_that_fails_leaves_no_copies() {
        let (folder, folders) = third_cannot_be_moved("undo-rest");
        update_baselines(&folders.into(), "main").expect_err("c has something in the way");
        assert_eq!(folder.entries("a"), 2);
    }
}
