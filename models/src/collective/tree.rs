//! AllReduce on trees (NCCL device/all_reduce.h, graph/trees.cc): up to be reduced, down to be
//! handed out, both at once and chunk by chunk. Two trees share the buffer; between hosts they are
//! binary, within a host a chain, or (NVLSTree) the NVSwitch.

use super::program::{Part, Peers, Primitive, Stepped};

/// What a lane of a tree does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Takes from below, gives to the one above.
    Up,
    /// Takes from above, gives to those below.
    Down,
    /// Of the root: takes from below and gives back.
    Root,
}

/// The program of one half of a rank on one channel. The root has a lane for both.
#[derive(Clone, Copy, Debug)]
pub struct TreeHalf {
    /// Which one.
    pub half: Half,
    /// Ranks below this one.
    pub children: u32,
    /// What this channel does of the buffer.
    pub part: Part,
    /// Largest chunk.
    pub chunk: u64,
    /// All GPUs of a host take part by way of the NVSwitch.
    pub nvls: bool,
}

impl Stepped for TreeHalf {
    fn len(&self) -> u64 {
        self.part.bytes.div_ceil(self.chunk)
    }

    fn receives_from(&self, peer: u32) -> u64 {
        if self.step(0).recv.contains(peer) { self.len() } else { 0 }
    }

    fn step(&self, step: u64) -> Primitive {
        let Part { offset, bytes } = self.part.piece(step, self.chunk);
        let below = Peers::all(self.children);
        let (recv, send) = match self.half {
            Half::Up => (below, Peers::one(0)),
            Half::Down => (Peers::one(0), below),
            Half::Root => (below, below),
        };
        Primitive {
            recv,
            reduce: self.half != Half::Down,
            copy: self.half != Half::Up,
            send,
            offset,
            bytes,
            other: None,
            multicast: self.nvls,
        }
    }
}

/// Which nodes are above and below a node of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Above; none at the root.
    pub parent: Option<u32>,
    /// Below.
    pub children: Vec<u32>,
}

/// Node `rank` of `nodes` in a binary tree in which neighbours are near each other: the lowest bit
/// of its number tells its height (`ncclGetBtree`).
fn binary(nodes: u32, rank: u32) -> Branch {
    if rank == 0 {
        let below = (nodes > 1).then(|| nodes.next_power_of_two() / 2);
        return Branch { parent: None, children: below.into_iter().collect() };
    }
    let bit = rank & rank.wrapping_neg();
    let up = (rank ^ bit) | bit << 1;
    let parent = Some(if up >= nodes { rank ^ bit } else { up });
    let left = (bit > 1).then(|| rank - bit / 2);
    // what is not there is replaced by what would be below it
    let mut low = bit / 2;
    while low > 0 && rank + low >= nodes {
        low /= 2;
    }
    let right = (low > 0).then(|| rank + low);
    Branch { parent, children: left.into_iter().chain(right).collect() }
}

/// Node `node` of `nodes` in tree 0 or 1 of a pair: the second is the mirror of the first, or for odd
/// numbers the first shifted by one, so that what is a leaf in one is inner in the other
/// (`ncclGetDtree`).
pub(super) fn double_binary(nodes: u32, node: u32, tree: u32) -> Branch {
    if tree == 0 {
        return binary(nodes, node);
    }
    let map = |node: u32| match nodes.is_multiple_of(2) {
        true => nodes - 1 - node,
        false => (node + 1) % nodes,
    };
    let origin = if nodes.is_multiple_of(2) { map(node) } else { (node + nodes - 1) % nodes };
    let Branch { parent, children } = binary(nodes, origin);
    Branch { parent: parent.map(map), children: children.into_iter().map(map).collect() }
}

/// All edges of one of the two trees, as (above, below), from the root downwards.
pub(super) fn edges(nodes: u32, tree: u32) -> Vec<[u32; 2]> {
    let root = (0..nodes).find(|node| double_binary(nodes, *node, tree).parent.is_none());
    let mut reached: Vec<u32> = root.into_iter().collect();
    let mut edges = Vec::new();
    let mut next = 0;
    while let Some(&above) = reached.get(next) {
        let below = double_binary(nodes, above, tree).children;
        edges.extend(below.iter().map(|below| [above, *below]));
        reached.extend(below);
        next += 1;
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_and_five_nodes() {
        // 0 - 4; 4 - 2, 6; 2 - 1, 3; 6 - 5, 7
        let of = |nodes, tree| -> Vec<Branch> {
            (0..nodes).map(|node| double_binary(nodes, node, tree)).collect()
        };
        let parents = |nodes, tree| -> Vec<Option<u32>> {
            of(nodes, tree).into_iter().map(|branch| branch.parent).collect()
        };
        assert_eq!(
            parents(8, 0),
            [None, Some(2), Some(4), Some(2), Some(0), Some(6), Some(4), Some(6)]
        );
        // the mirror: 7 is the root, 3 below it
        assert_eq!(parents(8, 1)[7], None);
        assert_eq!(double_binary(8, 3, 1).parent, Some(7));
        // five: 4 is the highest power of two; its right child would be 6, 5: not there
        assert_eq!(parents(5, 0), [None, Some(2), Some(4), Some(2), Some(0)]);
        // shifted by one
        assert_eq!(parents(5, 1), [Some(1), None, Some(3), Some(0), Some(3)]);
        // three: 0 - 2 - 1
        assert_eq!(parents(3, 0), [None, Some(2), Some(0)]);
    }

    #[test]
    fn both_trees_are_trees_and_nobody_has_more_than_two_below() {
        for (nodes, tree) in (1..=40).flat_map(|nodes| [(nodes, 0), (nodes, 1)]) {
            let branches: Vec<Branch> =
                (0..nodes).map(|node| double_binary(nodes, node, tree)).collect();
            assert_eq!(branches.iter().filter(|branch| branch.parent.is_none()).count(), 1);
            for (node, branch) in (0..).zip(&branches) {
                assert!(branch.children.len() <= 2);
                let below = |child: &u32| branches[*child as usize].parent == Some(node);
                assert!(branch.children.iter().all(below), "{nodes} {tree} {node}");
                // upwards one comes to the root
                let up = |node: &u32| branches[*node as usize].parent;
                assert!(std::iter::successors(Some(node), up).count() <= 7);
            }
            let leaves = |tree| {
                let nodes =
                    (0..nodes).filter(move |n| double_binary(nodes, *n, tree).children.is_empty());
                nodes.collect::<Vec<u32>>()
            };
            let both = leaves(0).into_iter().filter(|n| leaves(1).contains(n)).count();
            assert!(
                both <= usize::from(!nodes.is_multiple_of(2)) + usize::from(nodes == 1),
                "{nodes}"
            );
        }
    }

    #[test]
    fn the_halves_of_a_rank() {
        let half = |half| TreeHalf {
            half,
            children: 2,
            part: Part { offset: 64, bytes: 100 },
            chunk: 64,
            nvls: false,
        };
        let up = half(Half::Up).step(1);
        assert_eq!(
            (up.recv, up.send, up.offset, up.bytes),
            (Peers::all(2), Peers::one(0), 128, 36)
        );
        assert!(up.reduce && !up.copy);
        let down = half(Half::Down).step(0);
        assert_eq!((down.recv, down.send, down.reduce), (Peers::one(0), Peers::all(2), false));
        let root = half(Half::Root);
        assert_eq!((root.step(0).recv, root.step(0).send), (Peers::all(2), Peers::all(2)));
        assert_eq!([0, 1, 2].map(|peer| root.receives_from(peer)), [2, 2, 0]);
    }
}
