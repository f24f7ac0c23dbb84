//! Dense indices. Each is valid for one [`crate::topology::Topology`] or one list of QPs.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a position in a `Vec`.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A host or a switch.
    NodeId
);
id!(
    /// One end of a cable: an egress and an ingress. The ports of a node are consecutive.
    PortId
);
id!(
    /// One RC connection: its requester at the source, its responder at the target.
    QpId
);

/// Number of priorities, traffic classes, queues and priority groups.
pub const PRIORITIES: usize = 8;
