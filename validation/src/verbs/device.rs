//! RDMA devices and their ports.

use std::ffi::CStr;
use std::sync::Arc;

use super::VerbsError;
use super::gid::{self, GidEntry};
use super::library::{Verbs, verbs};
use super::sys;

/// What is asked of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState {
    /// It is ACTIVE.
    pub active: bool,
    /// `ibv_port_state`.
    pub state: u32,
    /// Bytes of payload that a packet may have.
    pub active_mtu: u32,
    /// Its link layer is Ethernet: RoCE, not InfiniBand.
    pub ethernet: bool,
}

impl PortState {
    /// The state in words.
    pub fn name(&self) -> &'static str {
        match self.state {
            sys::IBV_PORT_DOWN => "DOWN",
            sys::IBV_PORT_INIT => "INIT",
            sys::IBV_PORT_ARMED => "ARMED",
            sys::IBV_PORT_ACTIVE => "ACTIVE",
            sys::IBV_PORT_ACTIVE_DEFER => "ACTIVE_DEFER",
            _ => "NOP",
        }
    }
}

/// An open device.
pub(super) struct Context {
    pub verbs: &'static Verbs,
    pub raw: *mut sys::ibv_context,
}

// SAFETY: libibverbs' objects may be used by any thread (man 3 ibv_open_device and others).
unsafe impl Send for Context {}
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was opened, and all that was made of it holds it.
        unsafe { (self.verbs.ibv_close_device)(self.raw) };
    }
}

/// A protection domain.
pub(super) struct Domain {
    pub context: Arc<Context>,
    pub raw: *mut sys::ibv_pd,
}

// SAFETY: as for Context.
unsafe impl Send for Domain {}
unsafe impl Sync for Domain {}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: as for Context.
        unsafe { (self.context.verbs.ibv_dealloc_pd)(self.raw) };
    }
}

/// A device that is open, with a protection domain.
#[derive(Clone)]
pub struct Device {
    name: String,
    port: u8,
    pub(super) domain: Arc<Domain>,
}

/// Names of all devices.
pub fn devices() -> Result<Vec<String>, VerbsError> {
    let verbs = verbs()?;
    with_devices(verbs, |list| list.iter().map(|(name, _)| name.clone()).collect())
}

fn with_devices<T>(
    verbs: &Verbs,
    then: impl FnOnce(&[(String, *mut sys::ibv_device)]) -> T,
) -> Result<T, VerbsError> {
    let mut count = 0;
    // SAFETY: the list is as long as it says, and freed after its last use.
    unsafe {
        let list = (verbs.ibv_get_device_list)(&mut count);
        if list.is_null() {
            let hint = ": is the kernel module ib_uverbs loaded?";
            return Err(VerbsError::last("ibv_get_device_list", hint));
        }
        let devices: Vec<(String, *mut sys::ibv_device)> = (0..count as usize)
            .map(|number| {
                let device = *list.add(number);
                let name = CStr::from_ptr((verbs.ibv_get_device_name)(device));
                (name.to_string_lossy().into_owned(), device)
            })
            .collect();
        let result = then(&devices);
        (verbs.ibv_free_device_list)(list);
        Ok(result)
    }
}

impl Device {
    /// Opens `mlx5_0`, or `mlx5_0:2` for its second port.
    pub fn open(text: &str) -> Result<Self, VerbsError> {
        let verbs = verbs()?;
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => match port.parse() {
                Ok(port @ 1..) => (name, port),
                _ => {
                    let message = format!("--device {text}: a port from 1 on is expected");
                    return Err(VerbsError::Device(message));
                }
            },
            None => (text, 1),
        };
        let opened = with_devices(verbs, |list| {
            let found = list.iter().find(|(own, _)| own == name);
            // SAFETY: the device is of a list that has not been freed.
            let raw = found.map(|(_, device)| unsafe { (verbs.ibv_open_device)(*device) });
            match raw {
                Some(raw) if raw.is_null() => {
                    let hint = ": may this user open /dev/infiniband/uverbs*?";
                    Err(VerbsError::last("ibv_open_device", hint))
                }
                Some(raw) => Ok(raw),
                None => {
                    let names: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
                    let here = match names.is_empty() {
                        true => "this machine has no RDMA device".to_owned(),
                        false => format!("here are {}", names.join(", ")),
                    };
                    Err(VerbsError::Device(format!("no RDMA device {name}: {here}")))
                }
            }
        });
        let context = Arc::new(Context { verbs, raw: opened?? });
        // SAFETY: the context is open.
        let raw = unsafe { (verbs.ibv_alloc_pd)(context.raw) };
        if raw.is_null() {
            return Err(VerbsError::last("ibv_alloc_pd", ""));
        }
        let domain = Arc::new(Domain { context, raw });
        Ok(Device { name: name.to_owned(), port, domain })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port that is used, from 1.
    pub fn port(&self) -> u8 {
        self.port
    }

    /// How its port is.
    pub fn state(&self) -> Result<PortState, VerbsError> {
        let context = &self.domain.context;
        // SAFETY: all bits zero are a value of this type; the library fills in at most its size.
        let port = unsafe {
            let mut port: sys::ibv_port_attr = std::mem::zeroed();
            let place = (&raw mut port).cast();
            let result = (context.verbs.ibv_query_port)(context.raw, self.port, place);
            VerbsError::check("ibv_query_port", result, ": has the device this port?")?;
            port
        };
        Ok(PortState {
            active: port.state == sys::IBV_PORT_ACTIVE,
            state: port.state,
            active_mtu: 128 << port.active_mtu.clamp(1, 5),
            ethernet: u32::from(port.link_layer) == sys::IBV_LINK_LAYER_ETHERNET,
        })
    }

    /// Its table of GIDs, without empty entries.
    pub fn gids(&self) -> Vec<GidEntry> {
        gid::table(&self.name, self.port)
    }
}
