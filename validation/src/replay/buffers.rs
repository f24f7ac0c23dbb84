//! The data of a collective: what ranks begin with, how it is added up, and whether the result is
//! right.

use half::{bf16, f16};
use models::collective::{DataType, Op};

/// Applies an expression to slices of a type's bytes, read as numbers of `$number`.
macro_rules! numbers {
    ($dtype:expr, $number:ident => $body:expr, else $other:expr) => {
        match $dtype {
            DataType::Int8 => {
                type $number = i8;
                $body
            }
            DataType::Uint8 => {
                type $number = u8;
                $body
            }
            DataType::Int32 => {
                type $number = i32;
                $body
            }
            DataType::Uint32 => {
                type $number = u32;
                $body
            }
            DataType::Int64 => {
                type $number = i64;
                $body
            }
            DataType::Uint64 => {
                type $number = u64;
                $body
            }
            DataType::Half => {
                type $number = f16;
                $body
            }
            DataType::Bfloat16 => {
                type $number = bf16;
                $body
            }
            DataType::Float => {
                type $number = f32;
                $body
            }
            DataType::Double => {
                type $number = f64;
                $body
            }
            DataType::F8e4m3 | DataType::F8e5m2 => $other,
        }
    };
}

/// A number of some type, in the byte order of this machine.
trait Number: Copy + PartialEq {
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn plus(self, other: Self) -> Self;
    fn small(value: u8) -> Self;
}

macro_rules! number {
    ($type:ty, $size:literal, $plus:expr, $small:expr) => {
        impl Number for $type {
            const SIZE: usize = $size;
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; $size];
                own.copy_from_slice(&bytes[..$size]);
                <$type>::from_ne_bytes(own)
            }
            fn write(self, bytes: &mut [u8]) {
                bytes[..$size].copy_from_slice(&self.to_ne_bytes());
            }
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }
            fn small(value: u8) -> Self {
                $small(value)
            }
        }
    };
}

number!(i8, 1, i8::wrapping_add, |value: u8| value as i8);
number!(u8, 1, u8::wrapping_add, |value: u8| value);
number!(i32, 4, i32::wrapping_add, i32::from);
number!(u32, 4, u32::wrapping_add, u32::from);
number!(i64, 8, i64::wrapping_add, i64::from);
number!(u64, 8, u64::wrapping_add, u64::from);
number!(
    f16,
    2,
    |a: f16, b: f16| f16::from_f32(a.to_f32() + b.to_f32()),
    |value: u8| f16::from_f32(value.into())
);
number!(bf16, 2, |a: bf16, b: bf16| bf16::from_f32(a.to_f32() + b.to_f32()), |value: u8| {
    bf16::from_f32(value.into())
});
number!(f32, 4, |a: f32, b: f32| a + b, f32::from);
number!(f64, 8, |a: f64, b: f64| a + b, f64::from);

fn add_numbers<N: Number>(sum: &mut [u8], other: &[u8]) {
    for (sum, other) in sum.chunks_exact_mut(N::SIZE).zip(other.chunks_exact(N::SIZE)) {
        N::read(sum).plus(N::read(other)).write(sum);
    }
}

/// Adds `other` to `sum`, element by element. Types without sums on a CPU (FP8) are refused before:
/// see [`can_add`].
pub(super) fn add(dtype: DataType, sum: &mut [u8], other: &[u8]) {
    numbers!(dtype, N => add_numbers::<N>(sum, other), else ());
}

/// Whether elements of this type can be added up here.
pub(super) fn can_add(dtype: DataType) -> bool {
    !matches!(dtype, DataType::F8e4m3 | DataType::F8e5m2)
}

/// What rank `rank` has at element `index`: 0 or 1, so that sums over 100 ranks are exact in every
/// type, and different by rank and place.
fn begin(rank: u32, index: u64) -> u8 {
    let mixed = (index ^ (u64::from(rank) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 63) as u8
}

fn fill_numbers<N: Number>(buffer: &mut [u8], rank: u32, first: u64) {
    for (index, element) in (first..).zip(buffer.chunks_exact_mut(N::SIZE)) {
        N::small(begin(rank, index)).write(element);
    }
}

/// Fills in what `rank` begins with; the first element has number `first`.
pub(super) fn fill(dtype: DataType, buffer: &mut [u8], rank: u32, first: u64) {
    let bytes = || (first..).map(|index| begin(rank, index));
    numbers!(dtype, N => fill_numbers::<N>(buffer, rank, first), else {
        buffer.iter_mut().zip(bytes()).for_each(|(place, value)| *place = value);
    });
}

/// A part of the result, and from whom it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// Bytes of the buffer,
    pub range: std::ops::Range<usize>,
    /// which are the sum of these ranks' data,
    pub ranks: std::ops::Range<u32>,
    /// whose first element has this number there.
    pub first: u64,
}

/// What the buffer of `rank` has to be in the end: nothing is said of bytes that are not listed.
pub(super) fn expected(
    op: Op,
    rank: u32,
    ranks: u32,
    root: u32,
    bytes: u64,
    size: u64,
) -> Vec<Expected> {
    let each = bytes / op.parts(ranks);
    let part = |number: u32| {
        let begin = u64::from(number) * each;
        begin as usize..(begin + each) as usize
    };
    let one = |rank: u32| rank..rank + 1;
    let whole = 0..bytes as usize;
    let places = |rank: u32| u64::from(rank) * each / size;
    match op {
        Op::AllReduce => vec![Expected { range: whole, ranks: 0..ranks, first: 0 }],
        Op::Reduce if rank == root => vec![Expected { range: whole, ranks: 0..ranks, first: 0 }],
        Op::Broadcast => vec![Expected { range: whole, ranks: one(root), first: 0 }],
        Op::ReduceScatter => {
            vec![Expected { range: part(rank), ranks: 0..ranks, first: places(rank) }]
        }
        Op::AllGather => (0..ranks)
            .map(|from| Expected { range: part(from), ranks: one(from), first: places(from) })
            .collect(),
        // its part of each rank's buffer
        Op::AllToAll => (0..ranks)
            .map(|from| Expected { range: part(from), ranks: one(from), first: places(rank) })
            .collect(),
        Op::SendRecv => {
            let from = (rank + ranks - 1) % ranks;
            vec![Expected { range: whole, ranks: one(from), first: 0 }]
        }
        Op::Reduce | Op::Send | Op::Custom => Vec::new(),
    }
}

fn wrong_numbers<N: Number>(part: &[u8], ranks: std::ops::Range<u32>, first: u64) -> u64 {
    let mut wrong = 0;
    for (index, element) in (first..).zip(part.chunks_exact(N::SIZE)) {
        let values = ranks.clone().map(|rank| N::small(begin(rank, index)));
        let sum = values.reduce(N::plus);
        wrong += u64::from(sum != Some(N::read(element)));
    }
    wrong
}

/// Elements that are not what they should be.
pub(super) fn wrong(dtype: DataType, buffer: &[u8], expected: &[Expected]) -> u64 {
    let of = |Expected { range, ranks, first }: &Expected| {
        let part = &buffer[range.clone()];
        numbers!(dtype, N => wrong_numbers::<N>(part, ranks.clone(), *first), else {
            let all = (*first..).zip(part);
            all.filter(|(index, byte)| **byte != begin(ranks.start, *index)).count() as u64
        })
    };
    expected.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_in_every_type() {
        for dtype in DataType::ALL.into_iter().filter(|dtype| can_add(*dtype)) {
            let bytes = 64 * dtype.size();
            let mut sum = vec![0; bytes as usize];
            fill(dtype, &mut sum, 0, 0);
            for rank in 1..100 {
                let mut other = vec![0; bytes as usize];
                fill(dtype, &mut other, rank, 0);
                assert_ne!(sum, other, "{dtype:?}");
                add(dtype, &mut sum, &other);
            }
            let wanted = expected(Op::AllReduce, 0, 100, 0, bytes, dtype.size());
            assert_eq!(wrong(dtype, &sum, &wanted), 0, "{dtype:?}");
            // one element is spoilt: the last one
            let last = sum.len() - 1;
            sum[last] ^= 1;
            assert_eq!(wrong(dtype, &sum, &wanted), 1, "{dtype:?}");
        }
    }

    #[test]
    fn parts_come_from_whom_they_should() {
        // 3 ranks, 4 floats each
        let of = |op, rank| expected(op, rank, 3, 1, 48, 4);
        let all = of(Op::AllToAll, 2);
        assert_eq!(all[1], Expected { range: 16..32, ranks: 1..2, first: 8 });
        assert_eq!(of(Op::AllGather, 0)[2], Expected { range: 32..48, ranks: 2..3, first: 8 });
        let scatter = [Expected { range: 16..32, ranks: 0..3, first: 4 }];
        assert_eq!(of(Op::ReduceScatter, 1), scatter);
        assert_eq!(of(Op::SendRecv, 0), [Expected { range: 0..48, ranks: 2..3, first: 0 }]);
        assert!(of(Op::Reduce, 0).is_empty());
    }
}
