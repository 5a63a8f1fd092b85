//! A page's file, open for reading.

use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::error::PageError;
use super::mapping::{Mapping, Place};
use super::snapshot::Snapshot;
use crate::lease::{LeaseMemory, LeasePhase};
use crate::{Attached, Counter, Machine, Page, is_in_memory};

/// A page's file that this process trusts, mapped read-only; unmapped when dropped.
#[derive(Debug)]
pub struct PageFile {
    mapping: Mapping,
    is_in_memory: bool,
    path: PathBuf,
    owner: u32,
}

impl PageFile {
    /// Opens and maps a page, if it is trusted ([`judge_file`](crate::judge_file)). Links are not
    /// followed, neither that of the file nor that of its folder.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or is not trusted.
    pub fn open(path: &Path) -> Result<Self, PageError> {
        let place = Place::of(path)?;
        let (file, facts) = place.open(OFlags::RDONLY)?;
        let mapping = Mapping::of(&file).map_err(|error| place.failed("it cannot be mapped", error))?;
        Ok(Self { mapping, is_in_memory: is_in_memory(&file), path: path.into(), owner: facts.owner })
    }

    /// The page.
    #[must_use]
    pub const fn page(&self) -> &Page {
        self.mapping.page()
    }

    /// The file's name, as it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user that the file belongs to.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.owner
    }

    /// Attaches to the page ([`Page::attach`]).
    ///
    /// # Errors
    ///
    /// If the page does not count here.
    pub fn attach(&self, machine: &Machine) -> Result<Attached<'_>, PageError> {
        let found = || self.page().header().map(|header| header.boot_id);
        self.page().attach(machine).map_err(|refusal| PageError::page(&self.path, refusal, machine, found()))
    }

    /// Attaches to the page, as the process that [`Machine::find_for`] finds. Allocates nothing unless it
    /// fails.
    ///
    /// # Errors
    ///
    /// If the page does not count here, or the machine is not known.
    pub fn attach_here(&self) -> Result<Attached<'_>, PageError> {
        let machine = Machine::find_for(self.page(), self.is_in_memory)
            .map_err(|error| PageError::machine(&self.path, error))?;
        self.attach(&machine)
    }

    /// What readers may do now.
    #[must_use]
    pub fn phase(&self) -> LeasePhase {
        self.page().words().word().phase()
    }

    /// The page as [`attach`](Self::attach) has returned it before in this process, with
    /// [`shift_ns`](Attached::shift_ns) from then.
    #[inline]
    #[must_use]
    pub const fn attached(&self, shift_ns: i64) -> Attached<'_> {
        Attached::again(self.page(), shift_ns)
    }

    /// What the page serves now. Reads the counter if the page names lines.
    #[must_use]
    pub fn snapshot(&self, counter: &impl Counter) -> Snapshot {
        Snapshot::of(self.page().words(), counter)
    }
}
