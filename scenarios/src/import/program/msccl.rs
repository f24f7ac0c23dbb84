//! Reads MSCCL XML files. What the attributes mean is what MSCCL's own reader and interpreter do
//! (microsoft/msccl: graph/topo.cc, collectives/device/msccl_interpreter.h).

use std::ops::RangeInclusive;

use models::collective::msccl::{Block, Buffer, Gpu, Move, MoveKind, MscclAlgorithm, Place};
use models::collective::{Op, Protocol};

use super::super::ImportError;
use super::super::text::{TextFile, quoted};
use super::super::xml::{self, Element};
use crate::load::suggestion;

pub(super) const OPS: [(&str, Op); 7] = [
    ("allreduce", Op::AllReduce),
    ("allgather", Op::AllGather),
    ("reduce", Op::Reduce),
    ("broadcast", Op::Broadcast),
    ("alltoall", Op::AllToAll),
    ("reduce_scatter", Op::ReduceScatter),
    ("custom", Op::Custom),
];
const PROTOCOLS: [(&str, Protocol); 3] =
    [("Simple", Protocol::Simple), ("LL128", Protocol::Ll128), ("LL", Protocol::Ll)];
const ALGO: [&str; 12] = [
    "name",
    "proto",
    "nchannels",
    "nchunksperloop",
    "ngpus",
    "coll",
    "inplace",
    "outofplace",
    "minBytes",
    "maxBytes",
    "nthreads",
    "redop",
];
const STEP: [&str; 10] =
    ["s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"];

/// Numbers beyond these are no algorithm, but a broken file.
const GPUS_MAX: u32 = 65_536;
const CHUNKS_MAX: u32 = 1 << 20;
const CHANNELS_MAX: u32 = 1024;

/// An element, and the file that it is in.
#[derive(Clone, Copy)]
struct Tag<'a> {
    element: &'a Element,
    file: &'a TextFile,
}

impl<'a> Tag<'a> {
    fn error(self, message: impl AsRef<str>) -> ImportError {
        self.element.error(self.file, message)
    }

    fn line(self) -> u32 {
        self.element.line as u32
    }

    fn need(self, key: &str) -> Result<&'a str, ImportError> {
        self.element.need(self.file, key)
    }

    fn children(self) -> impl ExactSizeIterator<Item = Tag<'a>> {
        self.element.children.iter().map(move |element| Tag { element, file: self.file })
    }

    /// Refuses other attributes than these, and other elements in it than `child`.
    fn only(self, attributes: &[&str], child: Option<&str>) -> Result<(), ImportError> {
        let mut found = self.element.attributes.iter();
        if let Some((key, _)) = found.find(|(key, _)| !attributes.contains(&key.as_str())) {
            let hint = suggestion(key, attributes);
            return Err(self.error(format!("unknown attribute {}{hint}", quoted(key))));
        }
        match (self.children().find(|tag| Some(tag.element.name.as_str()) != child), child) {
            (None, _) => Ok(()),
            (Some(tag), Some(child)) => {
                Err(tag.error(format!("<{child}> is expected within <{}>", self.element.name)))
            }
            (Some(tag), None) => {
                Err(tag.error(format!("nothing is expected within <{}>", self.element.name)))
            }
        }
    }

    fn number<T: std::str::FromStr>(self, key: &str) -> Result<T, ImportError> {
        let text = self.need(key)?;
        text.trim().parse().map_err(|_| {
            self.error(format!("{key} = {}; a whole number is expected", quoted(text)))
        })
    }

    fn within(self, key: &str, range: RangeInclusive<u32>) -> Result<u32, ImportError> {
        let number: i64 = self.number(key)?;
        match u32::try_from(number) {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => {
                let (from, to) = (range.start(), range.end());
                let expected = match from == to {
                    true => format!("{from}"),
                    false => format!("{from} to {to}"),
                };
                let message = format!("{key} = {number} is out of range; {expected} is expected");
                Err(self.error(message))
            }
        }
    }

    fn flag(self, key: &str) -> Result<bool, ImportError> {
        self.within(key, 0..=1).map(|number| number == 1)
    }

    /// One of these, by its name.
    fn pick<T: Copy>(self, key: &str, named: &[(&str, T)]) -> Result<T, ImportError> {
        let text = self.need(key)?;
        let found = named.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
            self.error(format!("{key} = {}{}", quoted(text), suggestion(text, &names)))
        })
    }
}

/// The algorithm in a file, with all that can be said of each element by itself checked.
pub(super) fn parse(file: &TextFile) -> Result<MscclAlgorithm, ImportError> {
    let root = xml::parse(file)?;
    let root = Tag { element: &root, file };
    if root.element.name != "algo" {
        return Err(root.error("<algo> is expected: an algorithm of MSCCL"));
    }
    root.only(&ALGO, Some("gpu"))?;
    let algorithm = MscclAlgorithm {
        name: root.need("name")?.to_owned(),
        op: root.pick("coll", &OPS)?,
        protocol: root.pick("proto", &PROTOCOLS)?,
        in_place: root.flag("inplace")?,
        chunks: root.within("nchunksperloop", 1..=CHUNKS_MAX)?,
        channels: root.within("nchannels", 1..=CHANNELS_MAX)?,
        sizes: sizes(root)?,
        gpus: Vec::new(),
    };
    let ranks = root.within("ngpus", 1..=GPUS_MAX)?;
    use Op::{AllGather, AllToAll, ReduceScatter};
    let parts = matches!(algorithm.op, AllGather | ReduceScatter | AllToAll);
    if parts && !algorithm.chunks.is_multiple_of(ranks) {
        let message = format!(
            "nchunksperloop = {}; a multiple of ngpus, {ranks}, is expected: each rank has a part",
            algorithm.chunks
        );
        return Err(root.error(message));
    }
    let mut gpus: Vec<Option<Gpu>> = vec![None; ranks as usize];
    for tag in root.children() {
        let id = tag.within("id", 0..=ranks - 1)?;
        if let Some(before) = &gpus[id as usize] {
            return Err(tag.error(format!("gpu {id} is there twice: see line {}", before.line)));
        }
        gpus[id as usize] = Some(gpu(tag, &algorithm, ranks, id)?);
    }
    if let Some(missing) = gpus.iter().position(Option::is_none) {
        return Err(root.error(format!("gpu {missing} is missing: ngpus is {ranks}")));
    }
    Ok(MscclAlgorithm { gpus: gpus.into_iter().flatten().collect(), ..algorithm })
}

/// `minBytes` and `maxBytes`; MSCCL takes 0 and 128 MiB where they are not there.
fn sizes(root: Tag<'_>) -> Result<(u64, u64), ImportError> {
    let size = |key: &str, absent: u64| match root.element.get(key) {
        Some(_) => root.number(key),
        None => Ok(absent),
    };
    let (least, most) = (size("minBytes", 0)?, size("maxBytes", 1 << 27)?);
    if least > most {
        let message = format!("minBytes = {least} is above maxBytes = {most}");
        return Err(root.error(message));
    }
    Ok((least, most))
}

fn gpu(tag: Tag<'_>, of: &MscclAlgorithm, ranks: u32, id: u32) -> Result<Gpu, ImportError> {
    tag.only(&["id", "i_chunks", "o_chunks", "s_chunks"], Some("tb"))?;
    let mut chunks = [0; 3];
    for (number, key) in chunks.iter_mut().zip(["i_chunks", "o_chunks", "s_chunks"]) {
        *number = tag.within(key, 0..=CHUNKS_MAX)?;
    }
    // MSCCL: a buffer that is used is all of it
    let [input, output] = whole(of, ranks);
    for (key, found, expected) in [("i_chunks", chunks[0], input), ("o_chunks", chunks[1], output)]
    {
        if found != 0 && found != expected && of.op != Op::Custom {
            let message = format!(
                "{key} = {found}; {expected}, or 0 for a buffer that is not used, is expected: \
                 nchunksperloop is {}",
                of.chunks
            );
            return Err(tag.error(message));
        }
    }
    let mut blocks: Vec<Option<Block>> = vec![None; tag.element.children.len()];
    for child in tag.children() {
        let block = child.within("id", 0..=blocks.len() as u32 - 1)?;
        if let Some(before) = &blocks[block as usize] {
            return Err(child.error(format!("tb {block} is there twice: see line {}", before.line)));
        }
        let room = Room { algorithm: of, ranks, id, chunks: usable(of, chunks) };
        blocks[block as usize] = Some(room.block(child)?);
    }
    let line = tag.line();
    Ok(Gpu { chunks, blocks: blocks.into_iter().flatten().collect(), line })
}

/// Chunks of a whole input and of a whole output.
fn whole(of: &MscclAlgorithm, ranks: u32) -> [u32; 2] {
    match of.op {
        Op::AllGather => [of.chunks / ranks, of.chunks],
        Op::ReduceScatter => [of.chunks, of.chunks / ranks],
        _ => [of.chunks; 2],
    }
}

/// Where there is one buffer for both, what one of them lacks is in the other.
fn usable(of: &MscclAlgorithm, chunks: [u32; 3]) -> [u32; 3] {
    let [input, output, scratch] = chunks;
    match of.op {
        _ if !of.in_place => chunks,
        Op::AllGather | Op::ReduceScatter | Op::Custom => chunks,
        _ => [input.max(output), input.max(output), scratch],
    }
}

/// What a thread block has around it.
struct Room<'a> {
    algorithm: &'a MscclAlgorithm,
    ranks: u32,
    id: u32,
    chunks: [u32; 3],
}

impl Room<'_> {
    fn block(&self, tag: Tag<'_>) -> Result<Block, ImportError> {
        tag.only(&["id", "send", "recv", "chan"], Some("step"))?;
        let channel = tag.within("chan", 0..=self.algorithm.channels - 1)?;
        let peers = [self.peer(tag, "send")?, self.peer(tag, "recv")?];
        let mut steps = Vec::new();
        for (number, child) in (0..).zip(tag.children()) {
            let s: i64 = child.number("s")?;
            if s != number {
                let message =
                    format!("s = {s}; {number} is expected: steps count from 0, in order");
                return Err(child.error(message));
            }
            steps.push(self.step(child, peers)?);
        }
        let [send, recv] = peers;
        Ok(Block { channel, send, recv, steps, line: tag.line() })
    }

    fn peer(&self, tag: Tag<'_>, key: &str) -> Result<Option<u32>, ImportError> {
        match tag.number::<i64>(key)? {
            -1 => Ok(None),
            peer if peer == i64::from(self.id) => {
                let message = format!("{key} = {peer} is this gpu itself; another one is expected");
                Err(tag.error(message))
            }
            peer => match u32::try_from(peer).ok().filter(|peer| *peer < self.ranks) {
                Some(peer) => Ok(Some(peer)),
                None => {
                    let last = self.ranks - 1;
                    let expected = format!("-1 for none, or a gpu, 0 to {last}, is expected");
                    Err(tag.error(format!("{key} = {peer} is out of range; {expected}")))
                }
            },
        }
    }

    fn step(&self, tag: Tag<'_>, [send, recv]: [Option<u32>; 2]) -> Result<Move, ImportError> {
        tag.only(&STEP, None)?;
        let kind = tag.pick("type", &MoveKind::NAMES)?;
        let name = tag.need("type")?;
        for (needed, peer, key) in [(kind.sends(), send, "send"), (kind.receives(), recv, "recv")] {
            if needed && peer.is_none() {
                let message = format!("type {name} needs a peer, and its <tb> has {key} = -1");
                return Err(tag.error(message));
            }
        }
        let count = tag.within("cnt", u32::from(kind != MoveKind::Nop)..=CHUNKS_MAX)?;
        let source = self.place(tag, ["srcbuf", "srcoff"], kind.reads().then_some(count))?;
        let target = self.place(tag, ["dstbuf", "dstoff"], kind.writes().then_some(count))?;
        let after = match (tag.number::<i64>("depid")?, tag.number::<i64>("deps")?) {
            (-1, _) => None,
            (block, step) => match (u32::try_from(block), u32::try_from(step)) {
                (Ok(block), Ok(step)) => Some((block, step)),
                _ => {
                    let message = format!(
                        "depid = {block}, deps = {step}; -1 for none, or a tb of this gpu and a \
                         step of it, is expected"
                    );
                    return Err(tag.error(message));
                }
            },
        };
        let awaited = tag.flag("hasdep")?;
        Ok(Move { kind, source, target, count, after, awaited, line: tag.line() })
    }

    /// A place of so many chunks; anything goes where it is not used.
    fn place(
        &self,
        tag: Tag<'_>,
        [buffer_key, offset_key]: [&str; 2],
        count: Option<u32>,
    ) -> Result<Place, ImportError> {
        const BUFFERS: [(&str, Buffer); 3] =
            [("i", Buffer::Input), ("o", Buffer::Output), ("s", Buffer::Scratch)];
        let buffer = tag.pick(buffer_key, &BUFFERS)?;
        let offset: i64 = tag.number(offset_key)?;
        let Some(count) = count else { return Ok(Place { buffer, chunk: 0 }) };
        let room = self.chunks[buffer as usize];
        let fits = |chunk: &u32| chunk.checked_add(count).is_some_and(|end| end <= room);
        match u32::try_from(offset).ok().filter(fits) {
            Some(chunk) => Ok(Place { buffer, chunk }),
            None => {
                let name = quoted(tag.need(buffer_key)?);
                let message = format!(
                    "{offset_key} = {offset}, cnt = {count} is out of range: buffer {name} of gpu \
                     {} has {room} chunks",
                    self.id
                );
                Err(tag.error(message))
            }
        }
    }
}
