//! Memory that a NIC may read and write.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use super::VerbsError;
use super::device::{Device, Domain};
use super::sys;

/// Where memory is, for its registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Memory of this process.
    Host,
    /// Memory of a device that its driver exports (GPUDirect by dma-buf): a file descriptor and the
    /// offset in it. The processor does not see it.
    DmaBuf {
        /// The descriptor,
        fd: i32,
        /// and the offset in bytes.
        offset: u64,
    },
}

const PAGE: usize = 4096;

/// Registered memory. A NIC writes to it while this process runs: [`Buffer::get`] may be asked for
/// what has come completely, and for nothing else.
pub struct Buffer {
    domain: Arc<Domain>,
    mr: *mut sys::ibv_mr,
    /// Of the host; nothing for memory of devices.
    memory: Option<(NonNull<u8>, Layout)>,
    length: usize,
}

// SAFETY: it owns its memory.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Registers new memory of this process, all zero.
    pub fn host(device: &Device, length: usize) -> Result<Self, VerbsError> {
        let layout = Layout::from_size_align(length.max(1).next_multiple_of(PAGE), PAGE);
        let no_memory = || VerbsError::Verb {
            verb: "allocation of buffers",
            source: std::io::ErrorKind::OutOfMemory.into(),
            hint: "",
        };
        let layout = layout.map_err(|_| no_memory())?;
        // SAFETY: the size is not 0.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_memory)?;
        let domain = device.domain.clone();
        // SAFETY: the memory is ours, and freed after it was deregistered.
        let mr = unsafe {
            let address = memory.as_ptr().cast();
            (domain.context.verbs.ibv_reg_mr)(domain.raw, address, length.max(1), ACCESS)
        };
        let buffer = Buffer { domain, mr, memory: Some((memory, layout)), length };
        match mr.is_null() {
            true => Err(VerbsError::last(
                "ibv_reg_mr",
                ": raise the limit of locked memory (ulimit -l unlimited)",
            )),
            false => Ok(buffer),
        }
    }

    /// Registers memory of a device, which is seen at `address` there.
    pub fn of_device(
        device: &Device,
        placement: Placement,
        address: u64,
        length: usize,
    ) -> Result<Self, VerbsError> {
        let Placement::DmaBuf { fd, offset } = placement else {
            return Buffer::host(device, length);
        };
        let domain = device.domain.clone();
        let Some(register) = domain.context.verbs.ibv_reg_dmabuf_mr else {
            let message = "this libibverbs has no ibv_reg_dmabuf_mr: rdma-core 34 or later has";
            return Err(VerbsError::Device(message.to_owned()));
        };
        // SAFETY: the kernel checks the descriptor and the range.
        let mr = unsafe { register(domain.raw, offset, length, address, fd, ACCESS) };
        match mr.is_null() {
            true => Err(VerbsError::last("ibv_reg_dmabuf_mr", ": does the driver export dma-buf?")),
            false => Ok(Buffer { domain, mr, memory: None, length }),
        }
    }

    /// Bytes of it that nobody writes to at present.
    pub fn get(&self, range: std::ops::Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.length);
        match &self.memory {
            // SAFETY: the range lies within the memory, which lives as long as `self`.
            Some((memory, _)) => unsafe {
                std::slice::from_raw_parts(memory.as_ptr().add(range.start), range.len())
            },
            None => &[],
        }
    }

    /// Bytes of it that no NIC reads or writes at present.
    pub fn get_mut(&mut self, range: std::ops::Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.length);
        match &self.memory {
            // SAFETY: as for `get`.
            Some((memory, _)) => unsafe {
                std::slice::from_raw_parts_mut(memory.as_ptr().add(range.start), range.len())
            },
            None => &mut [],
        }
    }

    /// The address of a byte, as work requests have it.
    pub fn address(&self, offset: usize) -> u64 {
        // SAFETY: the registration lives as long as `self`.
        unsafe { (*self.mr).addr as u64 + offset as u64 }
    }

    /// Its key for work requests of this process.
    pub fn lkey(&self) -> u32 {
        // SAFETY: as for `address`.
        unsafe { (*self.mr).lkey }
    }

    /// Its key for those of others.
    pub fn rkey(&self) -> u32 {
        // SAFETY: as for `address`.
        unsafe { (*self.mr).rkey }
    }
}

const ACCESS: i32 = (sys::IBV_ACCESS_LOCAL_WRITE | sys::IBV_ACCESS_REMOTE_WRITE) as i32;

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: both were made by us, and nothing refers to them any more.
        unsafe {
            if !self.mr.is_null() {
                (self.domain.context.verbs.ibv_dereg_mr)(self.mr);
            }
            if let Some((memory, layout)) = self.memory {
                dealloc(memory.as_ptr(), layout);
            }
        }
    }
}
