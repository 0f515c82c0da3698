//! Layout policies: how the data of new files below a directory are to be cut.
//!
//! A directory hands its policy down to the directories and the inline files made in it. It says nothing of files that
//! exist: a place never changes, and an inline file gets one by the policy that it was made under.

use crate::extras::LayoutPolicy;
use crate::inode::Inode;
use crate::ops::foreign;
use crate::{ChangeInfo, FileId, Namespace, NsError, Op};

impl Inode {
    /// The policy for new files of a directory, or that of an inline file, if it has one.
    #[must_use]
    pub fn layout_policy(&self) -> Option<LayoutPolicy> {
        self.extras.rare().and_then(|r| r.layout)
    }
}

impl Namespace {
    /// Gives a directory a policy, or takes it away. Only its owner and root may. What the values mean is the caller's.
    /// `is_foreign` makes it the top of a foreign tree, or of an own one.
    ///
    /// # Errors
    /// [`NsError::NotDir`], [`NsError::Perm`], [`NsError::Stale`]; [`NsError::NotEmpty`] where the tree would change.
    pub fn set_layout_policy(
        &self,
        op: &mut Op<'_>,
        dir: FileId,
        policy: Option<LayoutPolicy>,
        is_foreign: Option<bool>,
    ) -> Result<ChangeInfo, NsError> {
        let (cred, now) = (op.cred, op.now);
        self.write(op, |txn| {
            let inode = txn.need(dir)?;
            if !inode.is_dir() {
                return Err(NsError::NotDir);
            }
            if !cred.owns(&inode) {
                return Err(NsError::Perm);
            }
            if let Some(is_foreign) = is_foreign {
                foreign::turn(txn, &inode, is_foreign)?;
            }
            if inode.layout_policy() == policy && txn.need(dir)?.change == inode.change {
                return Ok(ChangeInfo {
                    before: inode.change,
                    after: inode.change,
                });
            }
            let after = txn.touch(dir)?;
            after.ctime = now;
            after.extras.edit(|rare| rare.layout = policy);
            Ok(ChangeInfo {
                before: inode.change,
                after: after.change,
            })
        })
    }
}
