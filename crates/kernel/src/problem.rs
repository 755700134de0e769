//! How a refusal is classed. The door turns a class into its own protocol's status.
//!
//! Never names an HTTP status: a refusal means the same through a page, a job or a tool.

/// What kind of "no" it is, and so whether it is kept as the answer to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The business says no: too little stock. The same call gets the same answer, so it is kept.
    Refused,
    /// A value cannot be right, seen only beside the data: more decimals than the SKU has.
    Invalid,
    /// What it names is not there, or not this tenant's.
    Missing,
    /// Something with that natural key is there already, or somebody was quicker.
    Conflict,
    /// Somebody holds it, for a while.
    Locked,
    /// Who asks did not prove, or does not prove any more, who they are.
    Unproven,
}

impl Class {
    /// Kept as the stored answer? Not when it may change by itself (somebody creates the missing
    /// row) or was never the command's doing: the retry must really run.
    pub const fn is_stored(self) -> bool {
        matches!(self, Self::Refused)
    }
}
